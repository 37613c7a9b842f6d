"""Sums, products and extremes over axes."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.axes import axes_of
from gradcheck_cli.engines.lowerings import Lowering


def _reduction(name: str) -> Lowering:
    def reduce(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        call = getattr(torch, name)
        if axis is None and not keepdims:
            return call(x)
        return call(x, dim=axes_of(axis, x.ndim), keepdim=keepdims)

    return reduce


def prod(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis is None and not keepdims:
        return torch.prod(x)
    for dim in reversed(axes_of(axis, x.ndim)):  # torch.prod takes one axis at a time
        x = torch.prod(x, dim=dim, keepdim=keepdims)
    return x


ROWS: dict[str, Lowering] = {
    "max": _reduction("amax"),
    "mean": _reduction("mean"),
    "min": _reduction("amin"),
    "prod": prod,
    "sum": _reduction("sum"),
}

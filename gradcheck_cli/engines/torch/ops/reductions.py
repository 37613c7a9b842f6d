"""Sums, products and extremes over axes."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, restored
from gradcheck_cli.engines.kit.lowerings import Lowering


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


def _argument(name: str) -> Lowering:
    def argument(torch: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return getattr(torch, name)(x, dim=axis, keepdim=keepdims)

    return argument


def count_nonzero(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = axes_of(axis, x.ndim)
    count = torch.count_nonzero(x, dim=axes) if axes else torch.count_nonzero(x)
    return count.reshape(restored(x.shape, axes)) if keepdims else count


ROWS: dict[str, Lowering] = {
    "all": _reduction("all"),
    "any": _reduction("any"),
    "argmax": _argument("argmax"),
    "argmin": _argument("argmin"),
    "count_nonzero": count_nonzero,
    "max": _reduction("amax"),
    "mean": _reduction("mean"),
    "min": _reduction("amin"),
    "prod": prod,
    "sum": _reduction("sum"),
}

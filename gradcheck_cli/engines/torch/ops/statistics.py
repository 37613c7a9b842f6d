"""Variance and standard deviation."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of
from gradcheck_cli.engines.kit.lowerings import Lowering


def _spread(name: str) -> Lowering:
    def spread(
        torch: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False
    ) -> Any:
        dim = axes_of(axis, x.ndim)
        return getattr(torch, name)(x, dim=dim, correction=correction, keepdim=keepdims)

    return spread


ROWS: dict[str, Lowering] = {"std": _spread("std"), "var": _spread("var")}

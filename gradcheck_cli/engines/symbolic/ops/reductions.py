"""Sums, products and extremes over axes."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import along, the_row
from gradcheck_cli.engines.symbolic.ops.selection import maximum, minimum


def _extreme(choose: Any) -> Lowering:
    def extreme(sympy: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return along(lambda xs: choose(sympy, *xs), x, axis, keepdims)

    return extreme


def _logic(name: str) -> Lowering:
    def logic(sympy: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return along(lambda xs: getattr(sympy, name)(*xs), x, axis, keepdims)

    return logic


ROWS: dict[str, Lowering] = {
    "all": _logic("And"),
    "any": _logic("Or"),
    "max": _extreme(maximum),
    "min": _extreme(minimum),
    **{name: the_row(name) for name in ("mean", "prod", "sum")},
}

"""Circular and hyperbolic functions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def sinc(sympy: Any, x: Any) -> Any:
    return sympy.Piecewise((1, sympy.Eq(x, 0)), (sympy.sin(sympy.pi * x) / (sympy.pi * x), True))


ROWS: dict[str, Lowering] = {
    **{name: name for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    **{name: name for name in ("cos", "cosh", "sin", "sinh", "tan")},
    "sinc": sinc,
}

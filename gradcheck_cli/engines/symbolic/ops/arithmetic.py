"""Arithmetic."""

from __future__ import annotations

import operator
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _plain(call: Any) -> Lowering:
    def arithmetic(sympy: Any, *xs: Any) -> Any:
        return call(*xs)

    return arithmetic


def absolute(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return Size(x)


def cbrt(sympy: Any, x: Any) -> Any:
    third = sympy.Rational(1, 3)
    return sympy.Piecewise((x**third, x >= 0), (-((-x) ** third), True))


def remainder(sympy: Any, x: Any, y: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Floor

    return x - y * Floor(x / y)


ROWS: dict[str, Lowering] = {
    "abs": absolute,
    "add": _plain(operator.add),
    "cbrt": cbrt,
    "divide": _plain(operator.truediv),
    "hypot": lambda sympy, x, y: sympy.sqrt(x**2 + y**2),
    "multiply": _plain(operator.mul),
    "negative": _plain(operator.neg),
    "power": _plain(operator.pow),
    "reciprocal": lambda sympy, x: 1 / x,
    "remainder": remainder,
    "rsqrt": lambda sympy, x: 1 / sympy.sqrt(x),
    "sqrt": "sqrt",
    "square": lambda sympy, x: x**2,
    "subtract": _plain(operator.sub),
}

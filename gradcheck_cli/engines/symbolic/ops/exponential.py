"""Exponentials and logarithms."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def xlogy(sympy: Any, x: Any, y: Any) -> Any:
    return sympy.Piecewise((0, sympy.Eq(x, 0)), (x * sympy.log(y), True))


ROWS: dict[str, Lowering] = {
    "exp": "exp",
    "exp2": lambda sympy, x: 2**x,
    "expm1": lambda sympy, x: sympy.exp(x) - 1,
    "log": "log",
    "log10": lambda sympy, x: sympy.log(x) / sympy.log(10),
    "log1mexp": lambda sympy, x: sympy.log(1 - sympy.exp(-x)),
    "log1p": lambda sympy, x: sympy.log(1 + x),
    "log2": lambda sympy, x: sympy.log(x) / sympy.log(2),
    "logaddexp": lambda sympy, x, y: sympy.log(sympy.exp(x) + sympy.exp(y)),
    "sigmoid": lambda sympy, x: 1 / (1 + sympy.exp(-x)),
    "softplus": lambda sympy, x: sympy.log(1 + sympy.exp(x)),
    "tanh": "tanh",
    "xlog1py": lambda sympy, x, y: xlogy(sympy, x, 1 + y),
    "xlogy": xlogy,
}

"""Error functions and the normal distribution."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def ndtr(sympy: Any, x: Any) -> Any:
    return sympy.erfc(-x / sympy.sqrt(2)) / 2


def entr(sympy: Any, x: Any) -> Any:
    positive = (-x * sympy.log(x), x > 0)
    return sympy.Piecewise(positive, (0, sympy.Eq(x, 0)), (-sympy.oo, True))


ROWS: dict[str, Lowering] = {
    "entr": entr,
    "erf": "erf",
    "erfc": "erfc",
    "erfcx": lambda sympy, x: sympy.exp(x**2) * sympy.erfc(x),
    "erfinv": "erfinv",
    "log_ndtr": lambda sympy, x: sympy.log(ndtr(sympy, x)),
    "logit": lambda sympy, x: sympy.log(x / (1 - x)),
    "ndtr": ndtr,
    "ndtri": lambda sympy, x: sympy.sqrt(2) * sympy.erfinv(2 * x - 1),
}

"""Determinants of small matrices, by Berkowitz's division-free algorithm."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import matrices


def det(sympy: Any, x: Any) -> Any:
    return matrices(lambda m: sympy.Matrix(m).det(method="berkowitz"), x)


def slogdet_sign(sympy: Any, x: Any) -> Any:
    def sign(d: Any) -> Any:
        return sympy.Piecewise((1, d > 0), (-1, d < 0), (0, True))

    return matrices(lambda m: sign(sympy.Matrix(m).det(method="berkowitz")), x)


def slogdet_logabs(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return matrices(lambda m: sympy.log(Size(sympy.Matrix(m).det(method="berkowitz"))), x)


ROWS: dict[str, Lowering] = {
    "det": det,
    "logdet": lambda sympy, x: matrices(
        lambda m: sympy.log(sympy.Matrix(m).det(method="berkowitz")), x
    ),
    "slogdet_logabs": slogdet_logabs,
    "slogdet_sign": slogdet_sign,
}

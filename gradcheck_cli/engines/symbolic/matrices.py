"""Rows of the op table (`ops`) about matrices: determinants, factors, inverses. For small matrices
only."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.symbolic.arrays import absolute, matrices

# Determinants, by Berkowitz's division-free algorithm


def determinant(sympy: Any, m: Any) -> Any:
    return sympy.Matrix(m).det(method="berkowitz")


def det(sympy: Any, x: Any) -> Any:
    return matrices(lambda m: determinant(sympy, m), x)


def logdet(sympy: Any, x: Any) -> Any:
    return matrices(lambda m: sympy.log(determinant(sympy, m)), x)


def slogdet_sign(sympy: Any, x: Any) -> Any:
    def sign(d: Any) -> Any:
        return sympy.Piecewise((1, d > 0), (-1, d < 0), (0, True))

    return matrices(lambda m: sign(determinant(sympy, m)), x)


def slogdet_logabs(sympy: Any, x: Any) -> Any:
    return matrices(lambda m: sympy.log(absolute(sympy, determinant(sympy, m))), x)


# The Cholesky factor


def cholesky(sympy: Any, x: Any) -> Any:
    """The Cholesky factor, row by row, of the symmetric part of the matrix."""

    def factor(m: Any) -> Any:
        half = (m + m.T) / 2
        low = np.full(m.shape, sympy.Integer(0), dtype=object)
        for i in range(len(m)):
            for j in range(i + 1):
                rest = half[i, j] - sum(low[i, k] * low[j, k] for k in range(j))
                low[i, j] = sympy.sqrt(rest) if i == j else rest / low[j, j]
        return low

    return matrices(factor, x)


# Inverses and solutions of linear systems, by Cramer's rule


def inv(sympy: Any, x: Any) -> Any:
    def inverse(m: Any) -> Any:
        whole = sympy.Matrix(m)
        return np.array((whole.adjugate() / whole.det(method="berkowitz")).tolist(), dtype=object)

    return matrices(inverse, x)


def solve(sympy: Any, x: Any, y: Any) -> Any:
    return inv(sympy, x) @ y

"""Inverses and solutions of small linear systems, by Cramer's rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import matrices


def inv(sympy: Any, x: Any) -> Any:
    def inverse(m: Any) -> Any:
        whole = sympy.Matrix(m)
        return np.array((whole.adjugate() / whole.det(method="berkowitz")).tolist(), dtype=object)

    return matrices(inverse, x)


def solve(sympy: Any, x: Any, y: Any) -> Any:
    return inv(sympy, x) @ y


ROWS: dict[str, Lowering] = {"inv": inv, "solve": solve}

"""The Cholesky factor of small matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import matrices


def cholesky(sympy: Any, x: Any) -> Any:
    """Row by row; of the matrix only the lower triangle is read, as symmetric halves."""

    def factor(m: Any) -> Any:
        half = (m + m.T) / 2
        low = np.full(m.shape, sympy.Integer(0), dtype=object)
        for i in range(len(m)):
            for j in range(i + 1):
                rest = half[i, j] - sum(low[i, k] * low[j, k] for k in range(j))
                low[i, j] = sympy.sqrt(rest) if i == j else rest / low[j, j]
        return low

    return matrices(factor, x)


ROWS: dict[str, Lowering] = {"cholesky": cholesky}

"""Products of vectors, matrices and arrays of any rank."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import pair_of_axes
from gradcheck_cli.engines.kit.lowerings import Lowering


def einsum(jax: Any, *xs: Any, subscripts: str) -> Any:
    return jax.numpy.einsum(subscripts, *xs)


def tensordot(jax: Any, x1: Any, x2: Any, axes: Any = 2) -> Any:
    return jax.numpy.tensordot(x1, x2, axes=pair_of_axes(axes))


ROWS: dict[str, Lowering] = {
    "cross": "numpy.cross",
    "dot": "numpy.dot",
    "einsum": einsum,
    "kron": "numpy.kron",
    "matmul": "numpy.matmul",
    "outer": "numpy.outer",
    "tensordot": tensordot,
}

"""Equations with matrices, and functions of square matrices."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def matrix_power(jax: Any, x: Any, n: int) -> Any:
    return jax.numpy.linalg.matrix_power(x, n)


def solve(jax: Any, x1: Any, x2: Any) -> Any:
    """x2 is a vector only where it has one axis."""
    columns = x2[:, None] if x2.ndim == 1 else x2
    y = jax.numpy.linalg.solve(x1, columns[(None,) * (x1.ndim - columns.ndim)])
    return y[..., 0] if x2.ndim == 1 else y


def triangular_solve(jax: Any, x1: Any, x2: Any, lower: bool = True) -> Any:
    """jax.scipy.linalg.solve_triangular takes stacks of one shape."""
    columns = x2[:, None] if x2.ndim == 1 else x2
    batch = jax.numpy.broadcast_shapes(x1.shape[:-2], columns.shape[:-2])
    a, b = (jax.numpy.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, columns))
    y = jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=lower)
    return y[..., 0] if x2.ndim == 1 else y


ROWS: dict[str, Lowering] = {
    "expm": "scipy.linalg.expm",
    "inv": "numpy.linalg.inv",
    "matrix_power": matrix_power,
    "solve": solve,
    "triangular_solve": triangular_solve,
}

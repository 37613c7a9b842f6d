"""Eigenvalues, singular values and their vectors, with the signs that the rows state."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _signs(jax: Any, v: Any) -> Any:
    """What makes the first large entry of every column positive."""
    if v.size == 0:
        return 1
    v = jax.lax.stop_gradient(v)
    size = jax.numpy.abs(v)
    first = jax.numpy.argmax(size >= 0.9 * size.max(axis=-2, keepdims=True), axis=-2, keepdims=True)
    decisive = jax.numpy.take_along_axis(v, first, axis=-2)
    return jax.numpy.where(decisive < 0, -1, 1).astype(v.dtype)


def eigh_vectors(jax: Any, x: Any) -> Any:
    v = jax.numpy.linalg.eigh(x).eigenvectors
    return v * _signs(jax, v)


def svd_u(jax: Any, x: Any) -> Any:
    u = jax.numpy.linalg.svd(x, full_matrices=False).U
    return u * _signs(jax, u)


def svd_vh(jax: Any, x: Any) -> Any:
    u, _, vh = jax.numpy.linalg.svd(x, full_matrices=False)
    signs = _signs(jax, u)
    return vh if isinstance(signs, int) else vh * signs.mT


ROWS: dict[str, Lowering] = {
    "eigh_vectors": eigh_vectors,
    "eigvalsh": "numpy.linalg.eigvalsh",
    "svd_u": svd_u,
    "svd_vh": svd_vh,
    "svdvals": "numpy.linalg.svdvals",
}

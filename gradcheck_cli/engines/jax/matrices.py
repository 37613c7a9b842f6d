"""Rows of the op table (`ops`) about matrices and vectors: factors, determinants, directions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit import compositions

# Eigenvalues, singular values and their vectors, with the signs that the rows state


def _signs_of_columns(jax: Any, v: Any) -> Any:
    """The factors that make the first large entry of each column positive."""
    if v.size == 0:
        return 1
    v = jax.lax.stop_gradient(v)
    size = jax.numpy.abs(v)
    first = jax.numpy.argmax(size >= 0.9 * size.max(axis=-2, keepdims=True), axis=-2, keepdims=True)
    decisive = jax.numpy.take_along_axis(v, first, axis=-2)
    return jax.numpy.where(decisive < 0, -1, 1).astype(v.dtype)


def eigh_vectors(jax: Any, x: Any) -> Any:
    v = jax.numpy.linalg.eigh(x).eigenvectors
    return v * _signs_of_columns(jax, v)


def svd_u(jax: Any, x: Any) -> Any:
    u = jax.numpy.linalg.svd(x, full_matrices=False).U
    return u * _signs_of_columns(jax, u)


def svd_vh(jax: Any, x: Any) -> Any:
    u, _, vh = jax.numpy.linalg.svd(x, full_matrices=False)
    signs = _signs_of_columns(jax, u)
    return vh if isinstance(signs, int) else vh * signs.mT


# Determinants


def logdet(jax: Any, x: Any) -> Any:
    sign, size = jax.numpy.linalg.slogdet(x)
    return jax.numpy.where(sign < 0, jax.numpy.nan, size)


# Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse


def pinv(jax: Any, x: Any, rtol: float) -> Any:
    return jax.numpy.linalg.pinv(x, rtol=rtol)


def _signs_of_diagonal(jax: Any, r: Any) -> Any:
    diagonal = jax.numpy.diagonal(jax.lax.stop_gradient(r), axis1=-2, axis2=-1)
    return jax.numpy.where(diagonal < 0, -1, 1).astype(r.dtype)


def qr_q(jax: Any, x: Any) -> Any:
    q, r = jax.numpy.linalg.qr(x)
    return q * _signs_of_diagonal(jax, r)[..., None, :]


def qr_r(jax: Any, x: Any) -> Any:
    r = jax.numpy.linalg.qr(x).R
    return r * _signs_of_diagonal(jax, r)[..., :, None]


# Equations with matrices, and functions of square matrices


def solve(jax: Any, x1: Any, x2: Any) -> Any:
    """Solve a linear system; x2 is a vector only if it has one axis."""
    columns = x2[:, None] if x2.ndim == 1 else x2
    y = jax.numpy.linalg.solve(x1, columns[(None,) * (x1.ndim - columns.ndim)])
    return y[..., 0] if x2.ndim == 1 else y


def triangular_solve(jax: Any, x1: Any, x2: Any, lower: bool) -> Any:
    """Solve a triangular system, with batches broadcast: jax.scipy.linalg.solve_triangular requires
    equal batches."""
    columns = x2[:, None] if x2.ndim == 1 else x2
    batch = jax.numpy.broadcast_shapes(x1.shape[:-2], columns.shape[:-2])
    a, b = (jax.numpy.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, columns))
    y = jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=lower)
    return y[..., 0] if x2.ndim == 1 else y


# Directions of vectors, and how near they are


def normalize(jax: Any, x: Any, ord: float, axis: int, eps: float) -> Any:
    size = jax.numpy.linalg.vector_norm(x, ord=ord, axis=axis, keepdims=True)
    return x / jax.numpy.maximum(size, eps)


def triplet(xp: Any, *points: Any, **keywords: Any) -> Any:
    return xp.relu(compositions.triplet_excess(xp, *points, **keywords))

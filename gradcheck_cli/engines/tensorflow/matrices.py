"""Rows of the op table (`ops`) about matrices: products, factors, determinants, norms."""

from __future__ import annotations

import math
from math import inf
from typing import Any

from gradcheck_cli.engines.kit import compositions
from gradcheck_cli.engines.kit.axes import axes_of, restored
from gradcheck_cli.engines.tensorflow.shapes import flattened

# Eigenvalues, singular values and their vectors, with the signs that the rows state


def _symmetric(tf: Any, x: Any) -> Any:
    """The symmetric part of x. TensorFlow reads only the lower triangle, and returns a gradient of
    that triangle."""
    return 0.5 * (x + tf.linalg.matrix_transpose(x))


def _signs_of_columns(tf: Any, v: Any) -> Any:
    """The factors that make the first large entry of each column positive: one row for each
    matrix."""
    rows = tf.linalg.matrix_transpose(tf.stop_gradient(v))
    size = tf.abs(rows)
    large = size >= 0.9 * tf.reduce_max(size, axis=-1, keepdims=True)
    first = tf.argmax(tf.cast(large, tf.int32), axis=-1)
    decisive = tf.gather(rows, first, batch_dims=rows.shape.rank - 1)
    signs = tf.where(decisive < 0, tf.constant(-1, v.dtype), tf.constant(1, v.dtype))
    return tf.expand_dims(signs, -2)


def _is_empty(x: Any) -> bool:
    return 0 in x.shape


def eigh_vectors(tf: Any, x: Any) -> Any:
    v = tf.linalg.eigh(_symmetric(tf, x))[1]
    return v if _is_empty(v) else v * _signs_of_columns(tf, v)


def eigvalsh(tf: Any, x: Any) -> Any:
    return tf.linalg.eigvalsh(_symmetric(tf, x))


def svd_u(tf: Any, x: Any) -> Any:
    u = tf.linalg.svd(x)[1]
    return u if _is_empty(u) else u * _signs_of_columns(tf, u)


def svd_vh(tf: Any, x: Any) -> Any:
    _, u, v = tf.linalg.svd(x)
    return tf.linalg.matrix_transpose(v if _is_empty(u) else v * _signs_of_columns(tf, u))


# Determinants


def logdet(tf: Any, x: Any) -> Any:
    """The logarithm of the determinant, nan if the determinant is negative. tf.linalg.logdet only
    takes positive definite matrices."""
    sign, size = tf.linalg.slogdet(x)
    return tf.where(sign < 0, tf.constant(float("nan"), x.dtype), size)


def slogdet_sign(tf: Any, x: Any) -> Any:
    """The sign of the determinant. Its zero gradient is cut off, because TensorFlow would invert x
    for it."""
    return tf.stop_gradient(tf.linalg.slogdet(x)[0])


# Cholesky and QR factors, made unique by a positive diagonal; the pseudoinverse


def cholesky(tf: Any, x: Any) -> Any:
    """The Cholesky factor of the symmetric part: TensorFlow assumes symmetry when it
    differentiates."""
    return tf.linalg.cholesky(0.5 * (x + tf.linalg.matrix_transpose(x)))


def pinv(tf: Any, x: Any, rtol: float) -> Any:
    return tf.linalg.pinv(x, rcond=rtol)


def _signs_of_diagonal(tf: Any, r: Any) -> Any:
    diagonal = tf.linalg.diag_part(tf.stop_gradient(r))
    return tf.where(diagonal < 0, tf.constant(-1, r.dtype), tf.constant(1, r.dtype))


def qr_q(tf: Any, x: Any) -> Any:
    q, r = tf.linalg.qr(x)
    return q * tf.expand_dims(_signs_of_diagonal(tf, r), -2)


def qr_r(tf: Any, x: Any) -> Any:
    r = tf.linalg.qr(x).r
    return r * tf.expand_dims(_signs_of_diagonal(tf, r), -1)


# Products of vectors, matrices and arrays of any rank


def cross(tf: Any, x1: Any, x2: Any, axis: int) -> Any:
    """The cross product, broadcast, along any axis. tf.linalg.cross requires equal shapes and takes
    the last axis."""
    rank = max(x1.shape.rank, x2.shape.rank)
    last = [*(i for i in range(rank) if i != axis % rank), axis % rank]
    shape = tf.broadcast_static_shape(x1.shape, x2.shape)
    x1, x2 = (tf.transpose(tf.broadcast_to(x, shape), last) for x in (x1, x2))
    return tf.transpose(tf.linalg.cross(x1, x2), [last.index(i) for i in range(rank)])


def dot(tf: Any, x1: Any, x2: Any) -> Any:
    if x1.shape.rank == 0 or x2.shape.rank == 0:
        return x1 * x2
    return tf.tensordot(x1, x2, axes=[[-1], [-1 if x2.shape.rank == 1 else -2]])


def einsum(tf: Any, *xs: Any, subscripts: str) -> Any:
    """tf.einsum with broadcasting of named axes of length 1, which are removed first."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    named = "".join(sorted({c for c in left if c.isalpha() and left.count(c) == 1}))
    right = right if arrow else ("..." if "..." in left else "") + named
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for label, size in _sizes(term, x).items():
            sizes[label] = max(size, sizes.get(label, 0))
    reduced = [_without_ones(tf, term, x, sizes) for term, x in zip(terms, xs, strict=True)]
    plan = ",".join(term for term, _ in reduced) + "->" + right
    return tf.einsum(plan, *(x for _, x in reduced))


def _places(term: str, x: Any) -> dict[str, list[int]]:
    """The axes of each label of a term."""
    before, dots, after = term.partition("...")
    places: dict[str, list[int]] = {}
    for i, label in enumerate(before):
        places.setdefault(label, []).append(i)
    for i, label in enumerate(after if dots else ""):
        places.setdefault(label, []).append(x.shape.rank - len(after) + i)
    return places


def _sizes(term: str, x: Any) -> dict[str, int]:
    return {label: x.shape[axes[0]] for label, axes in _places(term, x).items()}


def _without_ones(tf: Any, term: str, x: Any, sizes: dict[str, int]) -> tuple[str, Any]:
    """A term and its array without the axes of length 1 that are longer in another array."""
    short = [label for label, size in _sizes(term, x).items() if size == 1 < sizes[label]]
    places = _places(term, x)
    for label in short:
        term = term.replace(label, "")
    return term, tf.squeeze(x, [i for label in short for i in places[label]]) if short else x


def kron(tf: Any, x1: Any, x2: Any) -> Any:
    """The Kronecker product by broadcasting: each axis of x1 is placed next to the corresponding
    axis of x2."""
    rank = max(x1.shape.rank, x2.shape.rank)
    first, second = ((1,) * (rank - x.shape.rank) + tuple(x.shape) for x in (x1, x2))
    x1 = tf.reshape(x1, [size for n in first for size in (n, 1)])
    x2 = tf.reshape(x2, [size for n in second for size in (1, n)])
    return tf.reshape(x1 * x2, [math.prod(pair) for pair in zip(first, second, strict=True)])


def matmul(tf: Any, x: Any, y: Any) -> Any:
    """The product of matrices or vectors. tf.matmul only takes matrices, so vectors get an axis,
    which is removed again."""
    left, right = x.shape.rank == 1, y.shape.rank == 1
    x = tf.expand_dims(x, 0) if left else x
    y = tf.expand_dims(y, -1) if right else y
    z = tf.matmul(x, y)
    axes = ([-2] if left else []) + ([-1] if right else [])
    return tf.squeeze(z, axis=axes) if axes else z


# Equations with matrices, and functions of square matrices


def matrix_power(tf: Any, x: Any, n: int) -> Any:
    """An integer power by repeated squaring: TensorFlow has no such function."""
    if n == 0:
        return tf.eye(x.shape[-1], batch_shape=x.shape[:-2], dtype=x.dtype)
    square = tf.linalg.inv(x) if n < 0 else x
    product = None
    for bit in reversed(f"{abs(n):b}"):
        if bit == "1":
            product = square if product is None else tf.matmul(product, square)
        square = tf.matmul(square, square)
    return product


def solve(tf: Any, x1: Any, x2: Any) -> Any:
    """Solve a linear system, with batches broadcast. tf.linalg.solve requires a matrix on the
    right, and equal batches."""
    columns = tf.expand_dims(x2, -1) if x2.shape.rank == 1 else x2
    batch = tf.broadcast_static_shape(x1.shape[:-2], columns.shape[:-2])
    x1, columns = (tf.broadcast_to(x, batch + x.shape[-2:]) for x in (x1, columns))
    y = tf.linalg.solve(x1, columns)
    return tf.squeeze(y, -1) if x2.shape.rank == 1 else y


def triangular_solve(tf: Any, x1: Any, x2: Any, lower: bool) -> Any:
    if x2.shape.rank == 1:
        columns = tf.expand_dims(x2, -1)
        return tf.squeeze(tf.linalg.triangular_solve(x1, columns, lower=lower), -1)
    return tf.linalg.triangular_solve(x1, x2, lower=lower)


# Lengths of vectors


def norm(tf: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm along some axes, which are flattened first: tf.norm computes a matrix norm over two
    axes."""
    if axis is None or isinstance(axis, tuple):
        axes = axes_of(axis, x.shape.rank)
        y = _norm_along(tf, flattened(tf, x, axes), ord, -1, False)
        return tf.reshape(y, restored(x.shape, axes)) if keepdims else y
    return _norm_along(tf, x, ord, axis, keepdims)


def _norm_along(tf: Any, x: Any, ord: float, axis: int, keepdims: bool) -> Any:
    if ord == -inf:
        return tf.reduce_min(tf.abs(x), axis=axis, keepdims=keepdims)
    return tf.norm(x, ord=ord, axis=axis, keepdims=keepdims)


# Directions of vectors, and how near they are


def normalize(tf: Any, x: Any, ord: float, axis: int, eps: float) -> Any:
    """x divided by its norm, which is at least eps. tf.math.l2_normalize bounds the square of the
    norm."""
    if ord == 2:
        return tf.math.l2_normalize(x, axis=axis, epsilon=eps**2)
    return x / tf.maximum(tf.norm(x, ord=ord, axis=axis, keepdims=True), eps)


def triplet(xp: Any, *points: Any, **keywords: Any) -> Any:
    return xp.maximum(compositions.triplet_excess(xp, *points, **keywords), 0.0)

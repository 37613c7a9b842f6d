"""Shared functions of the values of linear algebra: stacks of matrices, and matrices that LAPACK
refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reference_engine.floats import Array

Shape = tuple[int, ...]


def check_square(shape: Shape) -> None:
    """Raises ValueError unless the last two of at least two axes are equally long."""
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError("it takes square matrices, in the last two axes")


def check_matrix(shape: Shape) -> None:
    """Raises ValueError for fewer than two axes."""
    if len(shape) < 2:
        raise ValueError("it takes matrices, in the last two axes")


def square_shape(shape: Shape) -> Shape:
    """The shape of square matrices, for results of the same shape. Raises ValueError for other
    shapes."""
    check_square(shape)
    return shape


def parts_of(shape: Shape) -> tuple[Shape, int, int, int]:
    """The batch axes, m, n and min(m, n) of matrices (..., m, n). Raises ValueError for others."""
    check_matrix(shape)
    *batch, m, n = shape
    return tuple(batch), m, n, min(m, n)


def left_shape(shape: Shape) -> Shape:
    """The shape of the first factor (..., m, k) of matrices, with k = min(m, n)."""
    batch, m, _, k = parts_of(shape)
    return (*batch, m, k)


def right_shape(shape: Shape) -> Shape:
    """The shape of the last factor (..., k, n)."""
    batch, _, n, k = parts_of(shape)
    return (*batch, k, n)


def symmetric_part(x: Array) -> Array:
    """(x + x^T) / 2, halved before the sum so that it cannot overflow."""
    half = 0.5 * x
    return half + half.mT


def each_matrix(function: Callable[[Array], Array], x: Array, shape: Shape) -> Array:
    """`function` applied to a stack of matrices; nan for matrices that LAPACK refuses (singular
    ones).

    `shape` is the shape of the result for one matrix. Raises nothing. Matrices with an element that
    is not finite also give nan, because LAPACK returns ordinary numbers for some of them.
    """
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    if 0 in (*x.shape[:-2], *shape):
        return np.zeros((*x.shape[:-2], *shape), dtype)
    finite = np.isfinite(x).all(axis=(-2, -1))
    if not finite.all():
        result = np.full((*x.shape[:-2], *shape), np.nan, dtype)
        result[finite] = each_matrix(function, x[finite], shape)
        return result
    try:
        return function(x)
    except np.linalg.LinAlgError:
        result = np.full((*x.shape[:-2], *shape), np.nan, dtype)
    for i in np.ndindex(x.shape[:-2] if result.ndim > len(shape) else ()):
        try:
            result[i] = function(x[i])
        except np.linalg.LinAlgError:
            continue  # it stays nan
    return result


SHARE_OF_LARGEST = 0.9
"""The first entry of at least this share of a vector's largest magnitude decides its sign. At 1 the
sign of a vector like (1, -1) would hang on the last rounding."""


def signs_of_columns(v: Array) -> Array:
    """1 or -1 for every column, so that the first of its large entries becomes positive.

    v has shape (..., n, k), the result (..., 1, k).
    """
    size = np.abs(v)
    large = size >= SHARE_OF_LARGEST * np.max(size, axis=-2, keepdims=True, initial=0)
    first = np.argmax(large, axis=-2)[..., None, :]
    return np.where(np.take_along_axis(v, first, -2) < 0, -1, 1).astype(v.dtype)


_NORM = 0.7
"""The Taylor series of degree 16 leaves out less than 0.7^17 / 17! = 7e-18."""


def _norm(x: Array) -> Array:
    """The largest sum of magnitudes in a column of each matrix."""
    return np.max(np.sum(np.abs(x), axis=-2, keepdims=True), axis=(-2, -1), keepdims=True)


def matrix_exponential(x: Array) -> Array:
    """exp of square matrices (..., n, n): a Taylor series of x / 2^s, squared s times.

    s follows from the norms of the powers x^2, x^3, x^4, as squaring more often than that loses
    digits where powers are much smaller than their norm bounds (Al-Mohy, Higham, SIAM J. Matrix
    Anal. Appl. 31, 2009). Within some 30 units of roundoff of the norm where s is below 7;
    SciPy 1.17 loses thousands where |x| is 5 to 50, as its denominators are nearly singular there.
    """
    n = x.shape[-1]
    if not x.size:
        return np.zeros_like(x)
    first = np.frexp(_norm(x))[1]
    powers = [np.ldexp(x, -first)]
    for _ in range(3):
        powers.append(powers[-1] @ powers[0])
    d1, d2, d3, d4 = (_norm(p) ** (1 / k) for k, p in enumerate(powers, 1))
    # A tail of the series from the power p(p - 1) on is as small as max(d_p, d_p+1) makes it.
    size = np.minimum(d1, np.minimum(np.maximum(d2, d3), np.maximum(d3, d4)))
    wanted = np.ceil(np.log2(np.maximum(size, 2.0**-60) / _NORM)) + first
    s = np.where(np.isfinite(size), np.maximum(wanted, 0), 0).astype(int)
    a = [np.eye(n, dtype=x.dtype), *(np.ldexp(p, k * (first - s)) for k, p in enumerate(powers, 1))]
    y = np.broadcast_to(a[0] / math.factorial(16), x.shape)
    for j in (12, 8, 4, 0):
        y = y @ a[4] + sum(a[i] / math.factorial(j + i) for i in range(4))
    for k in range(int(s.max())):
        y = np.where(s > k, y @ y, y)
    return y

"""Eigenvalues, singular values and their vectors, of matrices (..., n, n) or (..., m, n).

A row takes the symmetric part (x + x^T) / 2 of a symmetric matrix, so its gradient is symmetric.
Vectors are unique: the first large entry of each eigenvector and each left singular vector is
positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.arithmetic.matrices import (
    Shape,
    check_square,
    each_matrix,
    left_shape,
    parts_of,
    right_shape,
    signs_of_columns,
    square_shape,
    symmetric_part,
)
from reference_engine.errors import ShapeError
from reference_engine.floats import Array, in_float32
from reference_engine.op import Op, Point, Rounding, row, several
from reference_engine.ops.linalg import matmul, swapped, symmetric_of
from reference_engine.ops.reductions import sum_
from reference_engine.ops.selection import equal, where
from reference_engine.ops.shape import expand_dims
from reference_engine.rules import Tangents
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "inputs"
SOURCE = "Townsend, Differentiating the singular value decomposition (2016)"

IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
ZEROS = [[0.0, 0.0], [0.0, 0.0]]
NAN = [[np.nan, np.nan], [np.nan, np.nan]]


def _off_diagonal(n: int) -> Any:
    return ~np.eye(n, dtype=np.bool_)


def _inverse_or_nan(x: Value) -> Value:
    """1 / x, and nan if x = 0."""
    zero = equal(x, 0)
    return where(zero, np.nan, 1 / where(zero, 1.0, x))


def _inverse_gaps(w: Value) -> Value:
    """1 / (w_j - w_i) off the diagonal, nan if the two are equal; 0 on the diagonal."""
    gaps = expand_dims(w, axis=-2) - expand_dims(w, axis=-1)
    off = _off_diagonal(shape_of(w)[-1])
    return where(off, _inverse_or_nan(where(off, gaps, 1.0)), 0.0)


def _eigvalsh_push(x_dot: Value, y: Value, x: Value) -> Value:
    v = eigh_vectors(x)
    return sum_(v * matmul(symmetric_of(x_dot), v), axis=-2)


@in_float32
def _eigvalsh_value(x: Array) -> Array:
    check_square(x.shape)
    return each_matrix(np.linalg.eigvalsh, symmetric_part(x), x.shape[-1:])


def _equal_neighbours(w: Array) -> Any:
    same = np.equal(w[..., 1:], w[..., :-1])
    none = np.zeros((*w.shape[:-1], 1), np.bool_)
    return np.concatenate([same, none], -1) | np.concatenate([none, same], -1)


eigvalsh: Op = row(
    "eigvalsh",
    _eigvalsh_value,
    Tangents(_eigvalsh_push),
    points=(
        Point("two eigenvalues are equal", "tie", (IDENTITY,), (IDENTITY,)).because(
            "a sum over equal ones has a derivative, and this gives it; one of them has "
            "derivatives in directions only"
        ),
    ),
    kinks_at=lambda x: _equal_neighbours(_eigvalsh_value(x)),
    result_shape=lambda shape: square_shape(shape)[:-1],
).says(
    "the eigenvalues of (x + x^T) / 2, ascending",
    "y_dot_i = v_i^T x_dot v_i",
    source="Giles, Collected matrix derivative results (2008), section 3.1",
)


def _eigenvectors(x: Array) -> Array:
    v = np.linalg.eigh(x)[1]
    return v * signs_of_columns(v)


@in_float32
def _eigh_vectors_value(x: Array) -> Array:
    check_square(x.shape)
    return each_matrix(_eigenvectors, symmetric_part(x), x.shape[-2:])


def _eigh_vectors_push(x_dot: Value, y: Value, x: Value) -> Value:
    rotated = matmul(swapped(y), matmul(symmetric_of(x_dot), y))
    return matmul(y, _inverse_gaps(eigvalsh(x)) * rotated)


eigh_vectors: Op = row(
    "eigh_vectors",
    _eigh_vectors_value,
    Tangents(_eigh_vectors_push),
    points=(
        Point("two eigenvalues are equal", "tie", (IDENTITY,), (NAN,)).because(
            "any basis of their space will do, so there is no derivative; TensorFlow "
            "takes 1 / 0 for 0",
            tensorflow=(ZEROS,),
        ),
    ),
    kinks_at=lambda x: np.broadcast_to(
        _equal_neighbours(_eigvalsh_value(x))[..., None, :], np.shape(x)
    ),
    result_shape=square_shape,
).says(
    "the eigenvectors of (x + x^T) / 2 as columns, of length 1, by ascending "
    "eigenvalues, the first large entry (0.9 of the largest or more) positive",
    "y_dot = y (F * (y^T x_dot y)), F_ij = 1 / (w_j - w_i), 0 on the diagonal",
    domain="matrices with distinct eigenvalues",
    source="Giles, Collected matrix derivative results (2008), section 3.1",
)

eigh = several(
    "eigh",
    lambda shape: ((eigvalsh, {}), (eigh_vectors, {})),
    results=("eigenvalues", "eigenvectors"),
    formula="w, v with (x + x^T) / 2 = v diag(w) v^T",
)


def _svd(x: Array) -> tuple[Array, Array]:
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    signs = signs_of_columns(u)
    return u * signs, vh * signs.mT


@in_float32
def _svd_u_value(x: Array) -> Array:
    _, m, _, k = parts_of(x.shape)
    return each_matrix(lambda a: _svd(a)[0], x, (m, k))


@in_float32
def _svd_vh_value(x: Array) -> Array:
    _, _, n, k = parts_of(x.shape)
    return each_matrix(lambda a: _svd(a)[1], x, (k, n))


@in_float32
def _svdvals_value(x: Array) -> Array:
    k = parts_of(x.shape)[-1]
    return each_matrix(lambda a: np.linalg.svd(a, compute_uv=False), x, (k,))


def _svdvals_shape(shape: Shape) -> Shape:
    batch, _, _, k = parts_of(shape)
    return (*batch, k)


def _svdvals_push(x_dot: Value, y: Value, x: Value) -> Value:
    slopes = sum_(svd_u(x) * matmul(x_dot, swapped(svd_vh(x))), axis=-2)
    return where(equal(y, 0), 0.0, slopes)


def _equal_singular(x: Array) -> Any:
    s = _svdvals_value(np.asarray(x))
    return _equal_neighbours(s), np.equal(s, 0)


svdvals: Op = row(
    "svdvals",
    _svdvals_value,
    Tangents(_svdvals_push),
    points=(
        Point(
            "a singular value is 0",
            "kink",
            ([[1.0, 0.0], [0.0, 0.0]],),
            ([[1.0, 0.0], [0.0, 0.0]],),
        ).because(
            "0 is the subgradient of least norm, as for |x|; the others give u v^T with "
            "the signs that the decomposition happens to have",
            frameworks=(IDENTITY,),
        ),
        Point("two singular values are equal", "tie", (IDENTITY,), (IDENTITY,)).because(
            "a sum over equal ones has a derivative, and this gives it; one of them has "
            "derivatives in directions only"
        ),
    ),
    kinks_at=lambda x: np.logical_or(*_equal_singular(x)),
    result_shape=_svdvals_shape,
).says("the singular values of x, descending", "y_dot_i = u_i^T x_dot v_i")


def _turn(inside: Value, s: Value) -> Value:
    """The skew matrix that rotates the left singular vectors; `inside` is u^T x_dot v.

    Its symmetric part is divided by s_j - s_i, and its skew part by s_i + s_j. With the usual
    divisor s_j^2 - s_i^2, squares would overflow and differences cancel.
    """
    half = 0.5 * inside
    symmetric, skew = half + swapped(half), half - swapped(half)
    sums = expand_dims(s, axis=-2) + expand_dims(s, axis=-1)
    off = _off_diagonal(shape_of(s)[-1])
    return symmetric * _inverse_gaps(s) + skew * _inverse_or_nan(where(off, sums, 1.0))


def _svd_side(x_dot: Value, u: Value, s: Value, v: Value) -> Value:
    """The derivative of u in x = u diag(s) v^T. For v, pass x^T and exchange the sides."""
    moved = matmul(x_dot, v)
    inside = matmul(swapped(u), moved)
    u_dot = matmul(u, _turn(inside, s))
    if shape_of(u)[-2] == shape_of(u)[-1]:
        return u_dot
    return u_dot + (moved - matmul(u, inside)) * expand_dims(_inverse_or_nan(s), axis=-2)


def _svd_vh_push(x_dot: Value, y: Value, x: Value) -> Value:
    return swapped(_svd_side(swapped(x_dot), swapped(y), svdvals(x), svd_u(x)))


SVD_POINTS = (
    Point("two singular values are equal", "tie", (IDENTITY,), (NAN,)).because(
        "any basis of their spaces will do, so there is no derivative; TensorFlow takes "
        "1 / 0 for 0",
        tensorflow=(ZEROS,),
    ),
)


def _tied_columns(x: Array) -> Any:
    tied, zero = _equal_singular(x)
    _, m, n, _ = parts_of(np.shape(x))
    return tied if m == n else tied | zero


svd_u: Op = row(
    "svd_u",
    _svd_u_value,
    Tangents(lambda x_dot, y, x: _svd_side(x_dot, y, svdvals(x), swapped(svd_vh(x)))),
    points=SVD_POINTS,
    kinks_at=lambda x: np.broadcast_to(_tied_columns(x)[..., None, :], left_shape(np.shape(x))),
    result_shape=left_shape,
).says(
    "the left singular vectors of x as columns (..., m, min(m, n)), the first large "
    "entry (0.9 of the largest or more) positive",
    "y_dot = y k + (1 - y y^T) x_dot v / s, k = sym / (s_j - s_i) + skew / (s_i + "
    "s_j) with the symmetric and the skew part of u^T x_dot v",
    domain="matrices with distinct singular values; none of them 0 where m > n",
    stability="no squares of singular values, whose differences cancel and which overflow",
)

svd_vh: Op = row(
    "svd_vh",
    _svd_vh_value,
    Tangents(_svd_vh_push),
    points=SVD_POINTS,
    kinks_at=lambda x: np.broadcast_to(_tied_columns(x)[..., None], right_shape(np.shape(x))),
    result_shape=right_shape,
).says(
    "the right singular vectors of x as rows (..., min(m, n), n), signs by the left",
    "that of svd_u for x^T, transposed",
    domain="matrices with distinct singular values; none of them 0 where m < n",
    stability="no squares of singular values, whose differences cancel and which overflow",
)


def _svd_parts(shape: Shape, full_matrices: bool) -> Any:
    if full_matrices:
        raise ShapeError("svd", (shape,), "only full_matrices=False: the rest is not unique")
    return ((svd_u, {}), (svdvals, {}), (svd_vh, {}))


svd = several(
    "svd",
    _svd_parts,
    results=("u", "singular values", "vh"),
    keywords={"full_matrices": False},
    formula="u, s, vh with x = u diag(s) vh, reduced to min(m, n) singular values",
)

"""Determinants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.arithmetic.matrices import Shape, check_square, each_matrix
from reference_engine.floats import Array, in_float32
from reference_engine.op import Op, Point, Rounding, internal, row, several
from reference_engine.ops.decompositions import svd_u, svd_vh, svdvals
from reference_engine.ops.indexing import getitem
from reference_engine.ops.linalg import cross, matmul, swapped
from reference_engine.ops.matrices import inv
from reference_engine.ops.reductions import exclusive_prod, sum_
from reference_engine.ops.selection import where
from reference_engine.ops.shape import expand_dims
from reference_engine.rules import Tangents
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "inputs"

SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
NAN = [[np.nan, np.nan], [np.nan, np.nan]]


def _checked(function: Any) -> Any:
    """A function of square matrices, in float32 for narrow formats."""

    @in_float32
    def value(x: Array) -> Array:
        check_square(x.shape)
        return function(x)

    return value


def _batch_shape(shape: Shape) -> Shape:
    check_square(shape)
    return shape[:-2]


def _equilibrated(x: Array) -> tuple[Array, Array, Array]:
    """x with rows and columns divided by powers of two, so that the largest elements are near 1;
    and the exponents.

    NumPy adds the logarithms of pivots, also for a determinant. If these are large and cancel,
    digits are lost. Exponents are integers and lose none.
    """
    rows = np.frexp(np.max(np.abs(x), axis=-1, initial=0))[1]
    scaled = np.ldexp(x, -rows[..., None])
    columns = np.frexp(np.max(np.abs(scaled), axis=-2, initial=0))[1]
    scaled = np.ldexp(scaled, -columns[..., None, :])
    kept = np.all((scaled != 0) | (x == 0), axis=(-2, -1))[..., None]
    rows, columns = np.where(kept, rows, 0), np.where(kept, columns, 0)
    return np.where(kept[..., None], scaled, x), rows, columns


def _det_by_factors(x: Array) -> Array:
    scaled, rows, columns = _equilibrated(x)
    return np.ldexp(np.linalg.det(scaled), np.sum(rows + columns, axis=-1))


def _slogdet(x: Array) -> tuple[Array, Array]:
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    scaled, rows, columns = _equilibrated(x)
    sign, size = np.linalg.slogdet(scaled)
    exponent = np.sum(rows + columns, axis=-1).astype(x.dtype)
    return sign, size + x.dtype.type(math.log(2)) * exponent


def _det_value(x: Array) -> Array:
    """The determinant. Two and three rows use products, like their cofactors, unless these overflow
    or underflow."""
    n = x.shape[-1]
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    if n == 0 or not x.size:
        return np.ones(x.shape[:-2], x.dtype)
    if n > 3:
        return _det_by_factors(x)
    result: Array = np.asarray(np.sum(x[..., 0, :] * _cofactors(x)[..., 0, :], axis=-1))
    bad = ~np.isfinite(result)
    if bad.any():
        result[bad] = _det_by_factors(x[bad])
    return result


def _cofactors_value(x: Array) -> Array:
    """det(x) x^-T, with both factors from the same LU factorisation: a pivot that makes one small
    makes the other large. By singular values if a pivot is 0."""
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    scaled, rows, columns = _equilibrated(x)
    determinant = np.linalg.det(scaled)[..., None, None]
    result = determinant * each_matrix(np.linalg.inv, scaled, x.shape[-2:]).mT
    bad = ~np.all(np.isfinite(result) & (determinant != 0), axis=(-2, -1))
    if bad.any():
        result[bad] = each_matrix(_cofactors_by_svd, scaled[bad], x.shape[-2:])
    exponents = rows[..., :, None] + columns[..., None, :]
    total = np.sum(rows + columns, axis=-1)[..., None, None]
    return np.ldexp(result, total - exponents)


def _cofactors_by_svd(x: Array) -> Array:
    u, s, vh = np.linalg.svd(x)
    others = exclusive_prod.value(s)[..., None, :]
    orientation = np.sign(np.linalg.det(u @ vh))[..., None, None]
    return orientation * ((u * others) @ vh)


def _cofactors_push(x_dot: Value, y: Value, x: Value) -> Value:
    """The derivative of the cofactors in the frame of the singular vectors, where it only has
    products of all singular values but two.

    With e = u^T x_dot v and p_ij the product of all singular values but s_i and s_j, the derivative
    of the cofactor (i, j) is -e_ji p_ij, and of (i, i) it is the sum of e_jj p_ij over j != i.
    """
    u, s, vh = svd_u(x), svdvals(x), svd_vh(x)
    n = shape_of(s)[-1]
    diagonal = np.eye(n, dtype=np.bool_)
    e = matmul(matmul(swapped(u), x_dot), swapped(vh))
    one_left_out = where(diagonal, 1.0, expand_dims(s, axis=-2))
    products = where(diagonal, 0.0, exclusive_prod(one_left_out))
    stretched = sum_(where(diagonal, e, 0.0), axis=-2, keepdims=True)
    on_diagonal = sum_(products * stretched, axis=-1, keepdims=True)
    inside = where(diagonal, on_diagonal, -(swapped(e) * products))
    orientation = slogdet_sign(matmul(u, vh))
    turned = matmul(matmul(u, inside), vh)
    return expand_dims(orientation, axis=(-2, -1)) * turned


cofactors: Op = internal("cofactors", _checked(_cofactors_value), Tangents(_cofactors_push)).says(
    "det(x) x^-T, which has a value for every square matrix",
    "with x = u diag(s) v^T, e = u^T x_dot v and p_ij the product of all s but s_i "
    "and s_j: det(u v^T) u c v^T, c_ij = -e_ji p_ij, c_ii = sum of e_jj p_ij over j != i",
    stability="second derivatives of det hold for singular matrices too; third ones, for four "
    "rows and more, need distinct singular values",
    source="Golberg, The derivative of a determinant (Amer. Math. Monthly 79, 1972); Stewart, "
    "On the adjugate matrix (Linear Algebra Appl. 283, 1998)",
)


def _cofactors(x: Value) -> Value:
    """d det(x) / dx, for up to three rows by products of elements."""
    n = shape_of(x)[-1]
    if n < 2:
        return where(np.ones((n, n), np.bool_), 1.0, x)
    if n == 2:
        turned = getitem(x, index=(..., slice(None, None, -1), slice(None, None, -1)))
        return where(np.eye(2, dtype=np.bool_), turned, -turned)
    if n == 3:
        following = getitem(x, index=(..., np.array([1, 2, 0]), slice(None)))
        last = getitem(x, index=(..., np.array([2, 0, 1]), slice(None)))
        return cross(following, last)
    return cofactors(x)


det: Op = row(
    "det",
    _checked(_det_value),
    Tangents(lambda x_dot, y, x: sum_(_cofactors(x) * x_dot, axis=(-2, -1))),
    points=(
        Point(
            "x is singular",
            "limit",
            (SINGULAR,),
            ([[4.0, -2.0], [-2.0, 1.0]],),
            value=0.0,
            raises=("tensorflow",),
        ).because(
            "the cofactors are there; PyTorch multiplies the inverse of a matrix nearby "
            "by a determinant of 0, TensorFlow inverts x",
            torch=([[0.0, 0.0], [0.0, 0.0]],),
        ),
    ),
    result_shape=_batch_shape,
).says(
    "the determinant of the matrices (..., n, n)",
    "y_dot = sum of c x_dot, c the cofactors of x",
    stability="not det(x) x^-T, which has no value for a singular matrix: the cofactors, of up "
    "to three rows by products, of more by LU factors or, where a pivot is 0, by singular "
    "values; second order holds for singular matrices too",
    source="Jacobi's formula: Magnus, Neudecker, Matrix Differential Calculus (1999), section "
    "8.3; Giles (2008), section 2.2.4",
)

slogdet_sign: Op = row(
    "slogdet_sign",
    _checked(lambda x: _slogdet(x)[0]),
    None,
    points=(Point("x is singular", "jump", (SINGULAR,), (None,), value=0.0),),
    kinks_at=lambda x: np.equal(np.linalg.slogdet(x)[0], 0),
    result_shape=_batch_shape,
).says(
    "the sign of the determinant: -1, 0 or 1",
    "0, so that no path leads through it",
    source="NumPy, linalg.slogdet",
)


LOG_POINTS = (
    Point(
        "x is singular", "pole", (SINGULAR,), (NAN,), value=-np.inf, raises=("tensorflow",)
    ).because(
        "there is no inverse; the signs that PyTorch gives are those of a rounding error",
        torch=([[-np.inf, np.inf], [np.inf, -np.inf]],),
        jax=([[np.inf, -np.inf], [-np.inf, np.inf]],),
    ),
)


def _log_det_push(x_dot: Value, y: Value, x: Value) -> Value:
    return sum_(swapped(inv(x)) * x_dot, axis=(-2, -1))


slogdet_logabs: Op = row(
    "slogdet_logabs",
    _checked(lambda x: _slogdet(x)[1]),
    Tangents(_log_det_push),
    points=LOG_POINTS,
    result_shape=_batch_shape,
).says(
    "log(|det(x)|), by LU factors, where the determinant itself would overflow",
    "y_dot = sum of x^-T x_dot",
    domain="regular matrices",
    source="Giles, Collected matrix derivative results (2008), section 2.2.4",
)

slogdet = several(
    "slogdet",
    lambda shape: ((slogdet_sign, {}), (slogdet_logabs, {})),
    results=("sign", "logabsdet"),
    formula="sign(det(x)), log(|det(x)|)",
)


def _logdet_value(x: Array) -> Array:
    sign, size = _slogdet(x)
    return np.where(sign < 0, np.nan, size)


logdet: Op = row(
    "logdet",
    _checked(_logdet_value),
    Tangents(_log_det_push),
    points=LOG_POINTS,
    result_shape=_batch_shape,
).says(
    "log(det(x)), by LU factors; nan where the determinant is negative",
    "y_dot = sum of x^-T x_dot",
    domain="matrices with a positive determinant",
    source="Giles, Collected matrix derivative results (2008), section 2.2.4",
)

"""Factorisations computed by substitution: Cholesky and QR; and the pseudoinverse.

Factors are unique: their triangular parts have a positive diagonal.
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
    square_shape,
    symmetric_part,
)
from reference_engine.floats import Array, in_float32
from reference_engine.op import Op, Point, Rounding, row, several
from reference_engine.ops.indexing import getitem
from reference_engine.ops.linalg import matmul, swapped, symmetric_of
from reference_engine.ops.matrices import triangular_solve
from reference_engine.ops.selection import where
from reference_engine.rules import Tangents
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "inputs"

ZEROS = [[0.0, 0.0], [0.0, 0.0]]
NAN = [[np.nan, np.nan], [np.nan, np.nan]]


@in_float32
def _cholesky_value(x: Array) -> Array:
    check_square(x.shape)
    return each_matrix(np.linalg.cholesky, symmetric_part(x), x.shape[-2:])


def _cholesky_push(x_dot: Value, y: Value, x: Value) -> Value:
    """y Phi(y^-1 x_dot y^-T), where Phi takes the lower triangle and half of the diagonal."""
    half_way = swapped(triangular_solve(y, symmetric_of(x_dot)))
    inner = triangular_solve(y, half_way)
    n = shape_of(y)[-1]
    halved = where(np.eye(n, dtype=np.bool_), 0.5 * inner, inner)
    return matmul(y, where(np.tri(n, dtype=np.bool_), halved, 0.0))


cholesky: Op = row(
    "cholesky",
    _cholesky_value,
    Tangents(_cholesky_push),
    points=(
        Point(
            "x is not positive definite",
            "edge",
            ([[1.0, 1.0], [1.0, 1.0]],),
            (NAN,),
            raises=("torch",),
        ).because("nan too where some factor of a stack fails; the others keep their values"),
    ),
    result_shape=square_shape,
).says(
    "the lower triangular y with y y^T = (x + x^T) / 2; nan where that is not positive definite",
    "y_dot = y Phi(y^-1 x_dot y^-T), Phi(a) = tril(a) with half of its diagonal",
    domain="positive definite matrices",
    stability="by triangular substitution; neither x nor y is inverted",
    source="Murray, Differentiation of the Cholesky decomposition (arXiv:1602.07527); the "
    "symmetric gradient as by torch.linalg.cholesky and tf.linalg.cholesky",
)


def _qr(x: Array) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(x.dtype)
    return q * signs[..., None, :], r * signs[..., None]


@in_float32
def _qr_q_value(x: Array) -> Array:
    _, m, _, k = parts_of(x.shape)
    return each_matrix(lambda a: _qr(a)[0], _floating(x), (m, k))


@in_float32
def _qr_r_value(x: Array) -> Array:
    _, _, n, k = parts_of(x.shape)
    return each_matrix(lambda a: _qr(a)[1], _floating(x), (k, n))


def _floating(x: Array) -> Array:
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _leading(x: Value) -> Value:
    """The columns of x that determine q: the first m."""
    m, n = shape_of(x)[-2:]
    return x if n <= m else getitem(x, index=(..., slice(0, m)))


def _qr_turn(x_dot: Value, q: Value, r: Value) -> tuple[Value, Value, Value]:
    """x_dot r^-1, its product with q^T, and the skew matrix by which q rotates, with the lower
    triangle of that product."""
    slopes = swapped(triangular_solve(swapped(_leading(r)), swapped(_leading(x_dot))))
    inside = matmul(swapped(q), slopes)
    lower = where(np.tri(shape_of(inside)[-1], k=-1, dtype=np.bool_), inside, 0.0)
    return slopes, inside, lower - swapped(lower)


def _qr_q_push(x_dot: Value, y: Value, x: Value) -> Value:
    slopes, inside, turn = _qr_turn(x_dot, y, qr_r(x))
    y_dot = matmul(y, turn)
    m, n = shape_of(x)[-2:]
    return y_dot if m <= n else y_dot + (slopes - matmul(y, inside))


def _qr_r_push(x_dot: Value, y: Value, x: Value) -> Value:
    q = qr_q(x)
    _, _, turn = _qr_turn(x_dot, q, y)
    y_dot = matmul(swapped(q), x_dot) - matmul(turn, y)
    k, n = shape_of(y)[-2:]
    return where(np.tri(k, n, -1, dtype=np.bool_), 0.0, y_dot)


QR_POINTS = (
    Point("the first min(m, n) columns are linearly dependent", "pole", (ZEROS,), (NAN,)).because(
        "r has a zero on its diagonal, and q is not unique"
    ),
)

qr_q: Op = row(
    "qr_q", _qr_q_value, Tangents(_qr_q_push), points=QR_POINTS, result_shape=left_shape
).says(
    "q of x = q r: (..., m, min(m, n)) with orthonormal columns",
    "y_dot = y k + (1 - y y^T) x_dot r^-1, k skew with the lower triangle of y^T x_dot r^-1",
    domain="matrices whose first min(m, n) columns are independent",
    source="Walter, Lehmann, Lamour, On evaluating higher-order derivatives of the QR "
    "decomposition (Optim. Methods Softw. 27, 2012); Seeger et al. (arXiv:1710.08717)",
)

qr_r: Op = row(
    "qr_r", _qr_r_value, Tangents(_qr_r_push), points=QR_POINTS, result_shape=right_shape
).says(
    "r of x = q r: (..., min(m, n), n), upper triangular with a positive diagonal",
    "y_dot = q^T x_dot - k y, with the k of qr_q",
    domain="matrices whose first min(m, n) columns are independent",
    source="Walter, Lehmann, Lamour, On evaluating higher-order derivatives of the QR "
    "decomposition (Optim. Methods Softw. 27, 2012); Seeger et al. (arXiv:1710.08717)",
)

qr = several(
    "qr",
    lambda shape: ((qr_q, {}), (qr_r, {})),
    results=("q", "r"),
    formula="q, r with x = q r, q with orthonormal columns, r upper triangular, reduced",
)


def _pinv_value(x: Array, *, rtol: float | None = None) -> Array:
    _, m, n, _ = parts_of(x.shape)
    x = _floating(x)
    bound = max(m, n) * float(np.finfo(x.dtype).eps) if rtol is None else rtol
    return each_matrix(lambda a: np.linalg.pinv(a, rtol=bound), x, (n, m))


def _pinv_push(x_dot: Value, y: Value, x: Value, rtol: float | None = None) -> Value:
    inner = matmul(matmul(y, x_dot), y)
    left = matmul(y, swapped(matmul(x_dot, y)))
    right = matmul(swapped(matmul(y, x_dot)), y)
    outside = left - matmul(matmul(left, x), y)
    return outside + (right - matmul(y, matmul(x, right))) - inner


def _pinv_shape(shape: Shape, rtol: float | None = None) -> Shape:
    batch, m, n, _ = parts_of(shape)
    return (*batch, n, m)


def _rank_deficient(x: Any, rtol: float | None = None) -> Any:
    x = _floating(np.asarray(x))
    m, n = x.shape[-2:]
    deficient = np.linalg.matrix_rank(x, rtol=rtol) < min(m, n)
    return np.broadcast_to(np.asarray(deficient)[..., None, None], (*x.shape[:-2], n, m))


pinv: Op = row(
    "pinv",
    in_float32(_pinv_value),
    Tangents(_pinv_push),
    points=(
        Point("the rank is not full", "jump", (ZEROS,), (ZEROS,), value=ZEROS).because(
            "next to it the pseudoinverse is as large as one likes"
        ),
    ),
    kinks_at=_rank_deficient,
    result_shape=_pinv_shape,
).says(
    "the pseudoinverse (..., n, m) of (..., m, n); singular values of at most rtol "
    "times the largest count as 0, rtol = max(m, n) eps by default",
    "y_dot = -y x_dot y + y y^T x_dot^T (1 - x y) + (1 - y x) x_dot^T y^T y",
    domain="matrices of full rank; where it is lower, directions that keep it",
    source="Golub, Pereyra, The differentiation of pseudo-inverses and nonlinear least squares "
    "problems (SIAM J. Numer. Anal. 10, 1973)",
)

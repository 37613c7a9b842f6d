"""Linear systems, and functions of square matrices. Singular matrices give nan or inf."""

from __future__ import annotations

import numpy as np

from reference_engine.arithmetic.matrices import (
    check_square,
    each_matrix,
    matrix_exponential,
    square_shape,
)
from reference_engine.errors import ShapeError
from reference_engine.floats import Array, all_in_float32, in_float32
from reference_engine.op import Op, Point, Rounding, composite, internal, row
from reference_engine.ops.indexing import concatenate, getitem
from reference_engine.ops.linalg import matmul, swapped
from reference_engine.ops.selection import where
from reference_engine.ops.shape import expand_dims
from reference_engine.rules import Implicit, Tangents
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "inputs"

Shape = tuple[int, ...]
SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
NAN = [[np.nan, np.nan], [np.nan, np.nan]]


@in_float32
def _inv_value(x: Array) -> Array:
    check_square(x.shape)
    return each_matrix(np.linalg.inv, x, x.shape[-2:])


inv: Op = row(
    "inv",
    _inv_value,
    Tangents(lambda x_dot, y, x: -matmul(matmul(y, x_dot), y)),
    points=(
        Point(
            "x is singular",
            "pole",
            (SINGULAR,),
            (NAN,),
            value=NAN,
            raises=("torch", "tensorflow"),
        ),
    ),
    result_shape=square_shape,
).says(
    "the inverse of the matrices (..., n, n); nan for a singular one",
    "y_dot = -y x_dot y",
    domain="regular matrices",
    source="Giles, Collected matrix derivative results (2008), section 2.2.3",
)


def _equation_shape(name: str, a: Shape, b: Shape) -> Shape:
    """The shape of a^-1 b. b is a vector only if it has one axis (Array API, linalg.solve)."""
    try:
        check_square(a)
        if not b or b[-1 if len(b) == 1 else -2] != a[-1]:
            raise ValueError(f"x2 must have {a[-1]} rows, as x1 has")
        if len(b) == 1:
            return (*a[:-2], a[-1])
        return (*np.broadcast_shapes(a[:-2], b[:-2]), *b[-2:])
    except ValueError as error:
        raise ShapeError(name, (a, b), str(error)) from None


def _columns(r: Value, b: Value) -> Value:
    """r as columns if b is a vector."""
    return expand_dims(r, axis=-1) if len(shape_of(b)) == 1 else r


def _like(r: Value, b: Value) -> Value:
    """Columns in the shape of the solution for b."""
    return getitem(r, index=(..., 0)) if len(shape_of(b)) == 1 else r


@all_in_float32
def _solve_value(x1: Array, x2: Array) -> Array:
    shape = _equation_shape("solve", x1.shape, x2.shape)
    try:
        return np.linalg.solve(x1, x2)
    except np.linalg.LinAlgError:
        pass
    columns = x2[:, None] if x2.ndim == 1 else x2
    batch = np.broadcast_shapes(x1.shape[:-2], columns.shape[:-2])
    x1 = np.broadcast_to(x1, (*batch, *x1.shape[-2:]))
    columns = np.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    joined = np.concatenate([x1, columns], axis=-1)
    n = x1.shape[-1]

    def one(both: Array) -> Array:
        return np.linalg.solve(both[..., :n], both[..., n:])

    return each_matrix(one, joined, columns.shape[-2:]).reshape(shape)


solve: Op = row(
    "solve",
    _solve_value,
    Implicit(
        lambda r, a, b: _like(solve(a, r), b),
        lambda g, a, b: solve(swapped(a), _columns(g, b)),
        lambda a_dot, y, a, b: -matmul(a_dot, _columns(y, b)),
        lambda b_dot, y, a, b: _columns(b_dot, b),
    ),
    points=(
        Point(
            "x1 is singular",
            "pole",
            (SINGULAR, [1.0, 1.0]),
            (NAN, [np.nan, np.nan]),
            value=[np.nan, np.nan],
            raises=("torch", "tensorflow"),
        ),
    ),
    result_shape=lambda a, b: _equation_shape("solve", a, b),
).says(
    "y with x1 y = x2, for (..., n, n) and (n,) or (..., n, k); nan where x1 is singular",
    "x1 y_dot = x2_dot - x1_dot y",
    domain="regular x1",
    stability="by LU factors of x1 with pivoting; its inverse is never formed",
    source="Giles, Collected matrix derivative results (2008), section 2.3.1",
)


def _substituted(a: Array, b: Array, lower: bool) -> Array:
    from scipy.linalg.blas import get_blas_funcs  # its import takes a tenth of a second

    (trsm,) = get_blas_funcs(("trsm",), (a, b))
    return trsm(1.0, a, b, lower=lower)


@all_in_float32
def _triangular_value(x1: Array, x2: Array, *, lower: bool = True) -> Array:
    """The solution by BLAS, one matrix at a time. A zero on the diagonal is divided by."""
    shape = _equation_shape("triangular_solve", x1.shape, x2.shape)
    x2 = x2[:, None] if x2.ndim == 1 else x2
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    x1 = np.broadcast_to(x1, (*batch, *x1.shape[-2:]))
    x2 = np.broadcast_to(x2, (*batch, *x2.shape[-2:]))
    y = np.empty(x2.shape, np.result_type(x2, np.float32))
    if y.size:
        for i in np.ndindex(batch):
            y[i] = _substituted(x1[i], x2[i], lower)
    return y.reshape(shape)


def _triangle(a: Value, lower: bool) -> Value:
    """a with zeros in the triangle that is not read."""
    n = shape_of(a)[-1]
    below = np.tri(n, dtype=np.bool_)
    return where(below if lower else below.T, a, 0.0)


triangular_solve: Op = row(
    "triangular_solve",
    _triangular_value,
    Implicit(
        lambda r, a, b, lower=True: _like(triangular_solve(a, r, lower=lower), b),
        lambda g, a, b, lower=True: triangular_solve(swapped(a), _columns(g, b), lower=not lower),
        lambda a_dot, y, a, b, lower=True: -matmul(_triangle(a_dot, lower), _columns(y, b)),
        lambda b_dot, y, a, b, lower=True: _columns(b_dot, b),
    ),
    aliases=("solve_triangular",),
    points=(
        Point(
            "a zero on the diagonal of x1",
            "pole",
            ([[0.0]], [1.0]),
            ([[-np.inf]], [np.inf]),
            value=[np.inf],
        ).because("it is divided by, as substitution does"),
    ),
    result_shape=lambda a, b, lower=True: _equation_shape("triangular_solve", a, b),
).says(
    "y with x1 y = x2, where of x1 only the lower (or only the upper) triangle is read",
    "x1 y_dot = x2_dot - x1_dot y, x1_dot in the triangle that is read",
    domain="no zero on the diagonal of x1",
    source="Giles, Collected matrix derivative results (2008), section 2.3.1",
)


def _matrix_power(x: Value, *, n: int) -> Value:
    """An integer power by squaring; of the inverse if n is negative."""
    check_square(shape_of(x))
    if n == 0:
        return where(np.eye(shape_of(x)[-1], dtype=np.bool_), 1.0, where(False, x, 0.0))
    square = inv(x) if n < 0 else x
    n = abs(n)
    product = None
    while True:
        if n % 2:
            product = square if product is None else matmul(product, square)
        n //= 2
        if n == 0:
            return product
        square = matmul(square, square)


matrix_power: Op = composite(
    "matrix_power", _matrix_power, result_shape=lambda shape, n: square_shape(shape)
).says(
    "x x ... x (n times), for (..., n, n); of the inverse where n < 0",
    "through matmul and inv",
    domain="regular matrices where n < 0, else all",
    source="NumPy, linalg.matrix_power",
)


@in_float32
def _expm_value(x: Array) -> Array:
    check_square(x.shape)
    return matrix_exponential(x if x.dtype.kind == "f" else x.astype(np.float64))


expm: Op = row(
    "expm",
    _expm_value,
    Tangents(
        lambda x_dot, y, x: expm_frechet(x, x_dot),
        transposes=(lambda g, y, x: expm_frechet(swapped(x), g),),
    ),
    aliases=("matrix_exp",),
    result_shape=square_shape,
).says(
    "sum of x^k / k!, of square matrices",
    "the upper right block of expm([[x, x_dot], [0, x]])",
    stability="by scaling and squaring of a Taylor series; eigenvectors would lose every digit "
    "near a defective matrix",
    source="Al-Mohy, Higham, A new scaling and squaring algorithm (SIAM J. Matrix Anal. "
    "Appl. 31, 2009); Higham, Functions of Matrices (2008), section 3.2",
)


def _power_of_two(x: Array) -> Array:
    """The power of two near the largest magnitude in each matrix; 1 for zeros."""
    largest = np.max(np.abs(x), axis=(-2, -1), keepdims=True, initial=0)
    return np.ldexp(np.ones((), x.dtype), np.frexp(largest)[1])


@all_in_float32
def _frechet_value(x1: Array, x2: Array) -> Array:
    """The derivative of expm at x1 along x2. x2 is scaled to the size of x1; otherwise it would
    determine the number of squarings."""
    n = x1.shape[-1]
    scale = _power_of_two(x2) / np.maximum(_power_of_two(x1), 1)
    blocks: Array = np.block([[x1, x2 / scale], [np.zeros_like(x1), x1]])
    corner: Array = matrix_exponential(blocks)[..., :n, n:]
    return scale * corner


def _blocks(x: Value, upper: Value) -> Value:
    """[[x, upper], [0, x]]"""
    top = concatenate(x, upper, axis=-1)
    bottom = concatenate(np.zeros(shape_of(x), x.dtype), x, axis=-1)
    return concatenate(top, bottom, axis=-2)


def _frechet_by_matrix(x_dot: Value, y: Value, x: Value, e: Value) -> Value:
    """A corner of the derivative of [[x, e], [0, x]] -> expm along [[x_dot, 0], [0, x_dot]]."""
    n = shape_of(x)[-1]
    zeros = np.zeros(shape_of(x), x.dtype)
    both = expm_frechet(_blocks(x, e), _blocks(x_dot, zeros))
    return getitem(both, index=(..., slice(0, n), slice(n, None)))


expm_frechet: Op = internal(
    "expm_frechet",
    _frechet_value,
    Tangents(
        _frechet_by_matrix,
        lambda e_dot, y, x, e: expm_frechet(x, e_dot),
        transposes=(None, lambda g, y, x, e: expm_frechet(swapped(x), g)),
    ),
).says(
    "the derivative of expm at x1 along x2, of one shape",
    "a derivative of expm of matrices of twice the size; linear in x2",
    source="Higham, Functions of Matrices (2008), theorem 3.6; Mathias, A chain rule for "
    "matrix functions (SIAM J. Matrix Anal. Appl. 17, 1996)",
)

"""Enclosures of linear algebra, by Arb's own solvers or by elementary algorithms on balls.

A singular matrix has no inverse. If the balls allow a singular matrix or equal eigenvalues,
Undecided is raised. (Arb's eigenvalues and eigenvectors: Rump, Computational error bounds for
multiple or nearly multiple eigenvalues, 2001.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import numpy as np
from flint import arb, arb_mat

from reference_engine.arithmetic.arbs import (
    DecidedByRounding,
    NotInBalls,
    Objects,
    Undecided,
    objects,
)
from reference_engine.arithmetic.ball_arrays import stacked
from reference_engine.arithmetic.ball_choices import order
from reference_engine.arithmetic.matrices import SHARE_OF_LARGEST

FEW_ROUNDINGS = 2.0**-51
"""Of the largest eigenvalue, and for each row: what float64 is off in one."""


def on_stacks(function: Callable[[Objects], Any]) -> Callable[..., Objects]:
    """A function of one matrix, applied to stacks."""

    def value(x: Objects) -> Objects:
        batch = x.shape[:-2]
        parts = [objects(function(x[i])) for i in np.ndindex(batch)]
        if not parts:
            m, n = x.shape[-2:]  # of a matrix that has everything, distinct eigenvalues too
            usual = objects(np.eye(m, n) * np.arange(1, n + 1))
            return objects(np.zeros((*batch, *np.shape(function(usual)))))
        return np.stack(parts).reshape((*batch, *parts[0].shape))

    return value


def _matrix(x: Objects) -> Any:
    return arb_mat(x.shape[0], x.shape[1], x.ravel().tolist())


def _table(x: Any) -> Objects:
    result = np.empty((x.nrows(), x.ncols()), dtype=object)
    if result.size:
        result[:] = x.tolist()
    return result


def _square(x: Objects) -> None:
    if x.shape[-1] != x.shape[-2]:
        raise ValueError("it takes square matrices, in the last two axes")


def _determinant(x: Objects) -> Any:
    """By Arb, whose elimination cannot prove that a singular matrix has determinant 0; exact for
    integers."""
    _square(x)
    if x.shape[0] == 2:
        return x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]
    return _matrix(x).det()


def _solved(a: Objects, b: Objects) -> Objects:
    _square(a)
    try:
        return _table(_matrix(a).solve(_matrix(b)))
    except ZeroDivisionError:
        if _determinant(a) == 0:
            return objects(np.full(b.shape, np.nan))
        raise Undecided("a matrix may be singular") from None


def _columns_of(function: Callable[..., Objects]) -> Callable[..., Objects]:
    def value(a: Objects, b: Objects, **keywords: Any) -> Objects:
        columns = b[:, None] if b.ndim == 1 else b
        y = stacked(lambda p, q: function(p, q, **keywords), a, columns)
        return y[..., 0] if b.ndim == 1 else y

    return value


def _substituted(a: Objects, b: Objects, lower: bool = True) -> Objects:
    """Forward or backward substitution, row by row, which reads one triangle."""
    n = len(a)
    y = np.empty(b.shape, dtype=object)
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        y[i] = (b[i] - a[i, known] @ y[known] if a[i, known].size else b[i]) / a[i, i]
    return y


def _cholesky(x: Objects) -> Objects:
    """Column by column; nan where a pivot is not positive."""
    _square(x)
    a, n = (x + x.T) / 2, len(x)
    y = objects(np.zeros((n, n)))
    for j in range(n):
        pivot = a[j, j] - sum((one * one for one in y[j, :j]), arb(0))
        if order(pivot, 0) <= 0:
            return objects(np.full((n, n), np.nan))
        y[j, j] = pivot.sqrt()
        for i in range(j + 1, n):
            inner = sum((p * q for p, q in zip(y[i, :j], y[j, :j], strict=True)), arb(0))
            y[i, j] = (a[i, j] - inner) / y[j, j]
    return y


def _qr(x: Objects) -> tuple[Objects, Objects]:
    """Gram-Schmidt orthogonalisation. The diagonal of r is positive."""
    m, n = x.shape
    k = min(m, n)
    q, r = objects(np.zeros((m, k))), objects(np.zeros((k, n)))
    for j in range(n):
        rest = x[:, j]
        for i in range(min(j, k)):
            r[i, j] = sum((p * s for p, s in zip(q[:, i], x[:, j], strict=True)), arb(0))
            rest = rest - r[i, j] * q[:, i]
        if j < k:
            r[j, j] = sum((one * one for one in rest), arb(0)).sqrt()
            q[:, j] = rest / r[j, j]
    return q, r


def _log(x: Objects) -> Any:
    determinant = _determinant(x)
    return arb.nan() if order(determinant, 0) < 0 else determinant.log()


def _cofactors(x: Objects) -> Objects:
    """The determinants of the matrix without one row and one column."""
    _square(x)
    n = len(x)
    result = objects(np.ones((n, n)))
    for i, j in np.ndindex(n, n) if n > 1 else ():
        minor = np.delete(np.delete(x, i, 0), j, 1)
        result[i, j] = (-1) ** (i + j) * _determinant(minor)
    return result


def _exponential(x: Objects) -> Objects:
    _square(x)
    return _table(_matrix(x).exp())


def _frechet(x: Objects, e: Objects) -> Objects:
    """A corner of the exponential of [[x, e], [0, x]]."""
    n = len(x)
    blocks = np.block([[x, e], [objects(np.zeros(x.shape)), x]])
    return _exponential(blocks)[:n, n:]


def _require_distinct(row: str, values: Any, equal: str) -> None:
    """Raises NotInBalls if two of these sorted float64 numbers are equal up to their rounding
    errors. Arb would search for a long time with more and more bits, and in vain if they are
    equal."""
    size = np.max(np.abs(values), initial=0.0)
    if np.any(np.abs(np.diff(values)) <= len(values) * FEW_ROUNDINGS * size):
        raise NotInBalls(row, f"{equal}, but for rounding")


def _eigen(x: Objects) -> tuple[Objects, Objects]:
    """Eigenvalues (n,), ascending, and eigenvectors of length 1 as columns, of the symmetric part:
    both are real, so the real parts of what Arb encloses are enclosures."""
    _square(x)
    symmetric = (x + x.T) / 2
    if np.all(np.isfinite(_middle(symmetric))):
        values = np.linalg.eigvalsh(_middle(symmetric))
        _require_distinct("eigvalsh", values, "two eigenvalues are equal")
    return _decomposed(symmetric)


def _middle(x: Objects) -> Any:
    """float64 array."""
    return np.array([float(one.mid()) for one in x.ravel()]).reshape(x.shape)


def _decomposed(x: Objects) -> tuple[Objects, Objects]:
    """The eigenvalues and eigenvectors of a symmetric matrix."""
    try:
        found, columns = _matrix(x).eig(right=True)
    except ValueError:
        raise Undecided("two eigenvalues may be equal") from None
    values: list[Any] = [one.real for one in found]

    def ascending(i: int, j: int) -> int:
        return order(values[i], values[j])

    places = sorted(range(len(values)), key=cmp_to_key(ascending))
    vectors = objects(np.zeros(x.shape))
    for column, place in enumerate(places):
        turned = [columns[row, place].real for row in range(len(x))]
        length = sum((one * one for one in turned), arb(0)).sqrt()
        vectors[:, column] = [one / length for one in turned]
    return objects([values[i] for i in places]), vectors


def _signs(vectors: Objects) -> Objects:
    """1 or -1 for every column, as `matrices.signs_of_columns` has them."""
    sizes, signs = abs(vectors), []
    for column in range(vectors.shape[1]):
        largest = SHARE_OF_LARGEST * sizes[:, column]
        first = next(
            row
            for row, size in enumerate(sizes[:, column])
            if all(i == row or order(size, other) >= 0 for i, other in enumerate(largest))
        )
        signs.append(arb(order(vectors[first, column], 0)))
    return objects(signs)


def _eigenvectors(x: Objects) -> Objects:
    vectors = _eigen(x)[1]
    return vectors * _signs(vectors)


def _singular(x: Objects) -> tuple[Objects, Objects, Objects]:
    """u, s and v, from the eigenvalues of the smaller of x^T x and x x^T. Small singular values
    need more bits."""
    if x.shape[0] < x.shape[1]:
        v, s, u = _singular(x.T)
    else:
        if np.all(np.isfinite(_middle(x))):
            sizes = np.linalg.svd(_middle(x), compute_uv=False)
            equal = "two singular values are equal, or one is 0"
            _require_distinct("svdvals", np.append(sizes, 0.0), equal)
        squares, vectors = _decomposed(_product(x.T, x))
        if any(order(square, 0) <= 0 for square in squares):
            raise Undecided("a singular value may be 0")
        s, v = np.sqrt(squares[::-1]), vectors[:, ::-1]
        u = _product(x, v) / s
    return u, s, v


def _product(a: Objects, b: Objects) -> Objects:
    return _table(_matrix(a) * _matrix(b))


def _pseudoinverse(x: Objects, rtol: float | None = None) -> Objects:
    """The pseudoinverse of a matrix with full rank, by the normal equations. No singular value may
    be so close to the cutoff that rounding decides whether it counts as 0. Rounding moves singular
    values by about half of the default cutoff, which depends on the dtype, float32 or wider."""
    if x.shape[0] < x.shape[1]:
        return _pseudoinverse(x.T, rtol).T
    rounding = len(x) * float(np.finfo(np.float32).eps)
    rounding = rounding if rtol is None else min(rounding, rtol)
    if x.size and np.all(np.isfinite(_middle(x))):
        sizes = np.linalg.svd(_middle(x), compute_uv=False)
        bound = (rounding if rtol is None else rtol) * sizes[0]
        if np.any(np.abs(sizes - bound) < rounding / 2 * sizes[0]):
            raise DecidedByRounding("pinv", "which singular values count as 0 depends on rounding")
        if not sizes[-1] > bound:
            raise NotInBalls("pinv", "some singular values count as 0")
    return _solved(_product(x.T, x), x.T)


def _left_vectors(x: Objects) -> Objects:
    u = _singular(x)[0]
    return u * _signs(u)


def _right(x: Objects) -> Objects:
    u, _, v = _singular(x)
    return (v * _signs(u)).T


MATRICES: dict[str, Callable[..., Any]] = {
    "inv": on_stacks(lambda x: _solved(x, objects(np.eye(x.shape[0])))),
    "solve": _columns_of(_solved),
    "triangular_solve": _columns_of(_substituted),
    "det": on_stacks(_determinant),
    "slogdet_sign": on_stacks(lambda x: arb(order(_determinant(x), 0))),
    "slogdet_logabs": on_stacks(lambda x: abs(_determinant(x)).log()),
    "logdet": on_stacks(_log),
    "cofactors": on_stacks(_cofactors),
    "cholesky": on_stacks(_cholesky),
    "qr_q": on_stacks(lambda x: _qr(x)[0]),
    "qr_r": on_stacks(lambda x: _qr(x)[1]),
    "eigvalsh": on_stacks(lambda x: _eigen(x)[0]),
    "eigh_vectors": on_stacks(_eigenvectors),
    "svdvals": on_stacks(lambda x: _singular(x)[1]),
    "pinv": lambda x, rtol=None: on_stacks(lambda one: _pseudoinverse(one, rtol))(x),
    "svd_u": on_stacks(_left_vectors),
    "svd_vh": on_stacks(_right),
    "expm": on_stacks(_exponential),
    "expm_frechet": lambda x, e: stacked(_frechet, x, e),
}

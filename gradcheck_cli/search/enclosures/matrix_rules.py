"""The rules of determinants, inverses and linear systems of matrices of up to three rows (see
`rules`).

Engines eliminate with partial pivoting. Except for the last products, their results are exact for a
matrix A + E with |E| <= gamma(3 n) |L| |U| (Higham, Accuracy and Stability of Numerical Algorithms,
theorems 9.3 and 9.4). No element of L exceeds 1, and none of U exceeds 2^(n - 1) max |A|. Where the
order of the pivots is certain, |L| |U| is enclosed, so that an element that is almost 0 has an
error that is almost 0. E also contains the errors of the elements of A, and allows for multipliers
that are products with a reciprocal. The error of a result is therefore at most its derivatives
between A and A + E, which are cofactors, times E.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.enclosures.array_rules import as_enclosed, no_rule
from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Flags,
    Rounding,
    between,
    outward,
    rounded,
    unrounded,
    up,
)
from gradcheck_cli.search.enclosures.rules import products, rule

_MOST_ROWS = 3

Interval = tuple[Bounds, Bounds]


def _times(x: Interval, y: Interval) -> Interval:
    return outward(*products(between(*x), between(*y), False))


def _plus(x: Interval, y: Interval) -> Interval:
    return outward(x[0] + y[0], x[1] + y[1])


def _minus(x: Interval) -> Interval:
    return -x[1], -x[0]


def _most(x: Interval) -> Bounds:
    return np.maximum(np.abs(x[0]), np.abs(x[1]))


@dataclass(frozen=True, slots=True)
class _Ranges:
    """The determinant of all matrices between two, and their cofactors by row and column."""

    det: Interval
    cofactors: list[list[Interval]]

    @property
    def regular(self) -> Flags:
        return np.asarray((self.det[0] > 0) | (self.det[1] < 0))

    @property
    def least(self) -> Bounds:
        """The least size of the determinant; 0 if a matrix may be singular."""
        return np.where(self.regular, np.minimum(np.abs(self.det[0]), np.abs(self.det[1])), 0.0)

    def inverse(self) -> list[list[Interval]]:
        """The elements of the inverses, if all matrices are regular."""
        lo, hi = (np.where(self.regular, end, 1.0) for end in self.det)
        below = outward(1 / hi, 1 / lo)
        size = range(len(self.cofactors))
        return [[_times(self.cofactors[j][i], below) for j in size] for i in size]


def _ranges(lo: Bounds, hi: Bounds) -> _Ranges:
    """The ranges for matrices between lo and hi, arrays (..., n, n)."""
    size = range(lo.shape[-1])
    a = [[(lo[..., i, j], hi[..., i, j]) for j in size] for i in size]
    cofactors = [[_cofactor(a, i, j) for j in size] for i in size]
    found = []  # along each row, and each column
    for i in size:
        for pairs in (
            [(a[i][j], cofactors[i][j]) for j in size],
            [(a[j][i], cofactors[j][i]) for j in size],
        ):
            total = _times(*pairs[0])
            for pair in pairs[1:]:
                total = _plus(total, _times(*pair))
            found.append(total)
    lows, highs = zip(*found, strict=True)
    return _Ranges((np.maximum.reduce(lows), np.minimum.reduce(highs)), cofactors)


def _cofactor(a: list[list[Interval]], i: int, j: int) -> Interval:
    rows = [[x for k, x in enumerate(row) if k != j] for m, row in enumerate(a) if m != i]
    if not rows:
        one = np.ones(a[0][0][0].shape)
        return one, one
    if len(rows) == 1:
        minor = rows[0][0]
    else:
        (p, q), (r, s) = rows
        minor = _plus(_times(p, s), _minus(_times(q, r)))
    return minor if (i + j) % 2 == 0 else _minus(minor)


def _factor_sizes(lo: Bounds, hi: Bounds) -> Bounds:
    """Bounds on |L| |U|, with the rows of A, for the factors of all matrices between lo and hi,
    arrays (..., n, n); infinite where the order of the pivots is not certain."""
    count = lo.shape[-1]
    left = np.zeros(lo.shape)
    order = np.broadcast_to(np.arange(count), lo.shape[:-1])
    certain = np.ones(lo.shape[:-2], np.bool_)
    for k in range(count):
        column = between(lo[..., k:, k], hi[..., k:, k])
        chosen = np.argmax(column.least, axis=-1)[..., None]
        others = np.where(np.arange(count - k) == chosen, 0.0, column.most)
        pivot = np.take_along_axis(column.least, chosen, axis=-1)[..., 0]
        certain = certain & (pivot > np.max(others, axis=-1))
        rows = np.broadcast_to(np.arange(count), order.shape).copy()
        np.put_along_axis(rows, chosen + k, k, axis=-1)
        rows[..., k] = chosen[..., 0] + k
        lo, hi, left = (np.take_along_axis(x, rows[..., None], axis=-2) for x in (lo, hi, left))
        order = np.take_along_axis(order, rows, axis=-1)
        safe = np.where(certain, pivot, 1.0)
        sign = np.where(lo[..., k, k] > 0, 1.0, -1.0)
        top = np.where(certain, np.maximum(np.abs(lo[..., k, k]), np.abs(hi[..., k, k])), 1.0)
        inverse = outward(*np.sort([sign / safe, sign / top], axis=0))
        for i in range(k + 1, count):
            factor = _times((lo[..., i, k], hi[..., i, k]), inverse)
            left[..., i, k] = np.minimum(_most(factor), 1 + 2.0**-20)
            for j in range(k + 1, count):
                product = _times(factor, (lo[..., k, j], hi[..., k, j]))
                rest = _plus((lo[..., i, j], hi[..., i, j]), _minus(product))
                lo[..., i, j], hi[..., i, j] = rest
            lo[..., i, k] = hi[..., i, k] = 0.0
    whole = (left + np.eye(count)) @ np.maximum(np.abs(lo), np.abs(hi))
    whole = np.take_along_axis(whole, np.argsort(order, axis=-1)[..., None], axis=-2)
    return np.where(certain[..., None, None], up(whole), np.inf)


@dataclass(frozen=True, slots=True)
class _Factored:
    """A matrix: ranges of the exact ones, ranges `near` of those for which an engine's results are
    exact, their distance `off`, and a bound on the size of the `pivots`."""

    exact: _Ranges
    near: _Ranges
    off: Bounds
    pivots: Bounds
    bad: Flags
    undefined: Flags


def _factored(rounding: Rounding, x: Enclosed) -> _Factored:
    count = x.lo.shape[-1]
    if x.lo.shape[-2:] != (count, count) or not 0 < count <= _MOST_ROWS:
        raise no_rule("a matrix of so many rows")
    error = np.where(x.bad, np.inf, x.error)
    most = np.max(x.most + error, axis=(-2, -1), keepdims=True)
    gamma = 6 * count * rounding.unit
    gamma = gamma / (1 - gamma) if gamma < 1 else np.inf
    pivots = 2.0 ** (count - 1) * most * (1 + gamma)
    least = max(rounding.least, rounding.normal if rounding.loose else 0.0)
    lost = error + 4 * count * least * (1 + most)
    off = up(lost + gamma * count * pivots)
    # computed factors are the exact ones of a matrix that is off by no more than that
    sizes = _factor_sizes(x.lo - off, x.hi + off)
    off = np.minimum(off, up(lost + gamma * sizes))
    exact = _ranges(x.lo, x.hi)
    near = _ranges(x.lo - off, x.hi + off)
    bad = np.any(x.bad, axis=(-2, -1)) | ~(count * pivots[..., 0, 0] < rounding.largest)
    undefined = np.any(x.undefined, axis=(-2, -1))
    return _Factored(exact, near, off, pivots[..., 0, 0], bad, undefined)


def _determinant_error(found: _Factored) -> Bounds:
    """A bound on the error of the determinant for any matrix `near`."""
    size = range(len(found.near.cofactors))
    parts = [_most(found.near.cofactors[i][j]) * found.off[..., i, j] for i in size for j in size]
    return up(np.sum(parts, axis=0))


@rule("det")
def _det(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The product of the pivots, in any order."""
    found = _factored(rounding, x)
    count = x.lo.shape[-1]
    own = 2 * (count + 1) * rounding.unit
    whole = np.maximum(found.pivots, 1.0) ** count
    a = up(_determinant_error(found) * (1 + own) + count * rounding.least * whole)
    bad = found.bad | ~(2 * whole < rounding.largest) | ~np.isfinite(a)
    d = np.full(a.shape, own)
    return rounded(rounding, Enclosed(*found.exact.det, d, a, bad, found.undefined))


@rule("slogdet_sign")
def _sign(rounding: Rounding, x: Enclosed) -> Enclosed:
    found = _factored(rounding, x)
    lo, hi = (np.where(end > 0, 1.0, -1.0) for end in found.exact.det)
    pole = ~found.exact.regular
    a = np.where(found.near.regular, 0.0, 2.0)
    bad, undefined = found.bad, found.undefined | pole
    return unrounded(lo, hi, np.zeros(a.shape), a, bad, undefined)


@rule("slogdet_logabs")
def _log_size(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The sum of the logarithms of the pivots. None of them is small if the determinant is not."""
    found = _factored(rounding, x)
    count, det = x.lo.shape[-1], found.exact.det
    least = found.near.least
    smallest = least / found.pivots ** (count - 1)
    each = np.maximum(np.abs(np.log(found.pivots)), np.abs(np.log(smallest)))
    own = count * each * (rounding.library + 2 * count * rounding.unit)
    a = up(_determinant_error(found) / least + own + count * rounding.library_least)
    lo, hi = np.log(found.exact.least), np.log(_most(det))
    lo, hi = lo - 2.0**-48 * (1 + np.abs(lo)), hi + 2.0**-48 * (1 + np.abs(hi))
    pole = ~found.exact.regular
    bad = found.bad | ~found.near.regular | ~(smallest > rounding.normal) | ~np.isfinite(a)
    zero = np.zeros(a.shape)
    a, lo = np.where(bad, np.inf, a), np.where(pole, -np.inf, lo)
    return rounded(rounding, Enclosed(lo, hi, zero, a, bad, found.undefined | pole))


@rule("logdet")
def _logdet(rounding: Rounding, x: Enclosed) -> Enclosed:
    """It has no value if the determinant is negative."""
    whole, sign = _log_size(rounding, x), _sign(rounding, x)
    below = ~((sign.lo > 0) & (sign.error < 1))
    undefined = whole.undefined | ~(sign.lo > 0)
    a = np.where(below, np.inf, whole.a)
    return replace(whole, a=a, bad=whole.bad | below, undefined=undefined, overflows=False)


@rule("solve")
def _solve(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """A^-1 b, with the error (A + E)^-1 (E A^-1 b + e), where e is the error of b."""
    found, y = _factored(rounding, x), as_enclosed(y)
    if y.lo.ndim != x.lo.ndim:
        raise no_rule("solve of a vector beside a stack")
    size = range(x.lo.shape[-1])
    inverse, near = found.exact.inverse(), found.near.inverse()
    rows = []
    for i in size:
        total = None
        for j in size:
            element = tuple(end[..., None] for end in inverse[i][j])
            part = _times(element, (y.lo[..., j, :], y.hi[..., j, :]))  # type: ignore[arg-type]
            total = part if total is None else _plus(total, part)
        assert total is not None
        rows.append(total)
    lo, hi = (np.stack(ends, axis=-2) for ends in zip(*rows, strict=True))
    sizes = np.maximum(np.abs(lo), np.abs(hi))
    moved = found.off @ sizes + np.where(y.bad, np.inf, y.error)
    spread = np.stack([np.stack([_most(near[i][j]) for j in size], -1) for i in size], -2)
    a = up(spread @ moved * (1 + 2.0**-40)) + rounding.least
    one = (*([slice(None)] * (lo.ndim - 2)), None, None)
    bad = (found.bad | ~found.near.regular)[one] | np.any(y.bad, axis=-2, keepdims=True)
    pole = (found.undefined | ~found.exact.regular)[one]
    pole = pole | np.any(y.undefined, axis=-2, keepdims=True)
    bad = bad | ~np.isfinite(a)
    lo, hi = np.where(pole, -np.inf, lo), np.where(pole, np.inf, hi)
    zero = np.zeros(a.shape)
    return rounded(rounding, Enclosed(lo, hi, zero, np.where(bad, np.inf, a), bad, pole))


@rule("inv")
def _inverse(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The solutions for the unit vectors."""
    unit: Any = np.broadcast_to(np.eye(x.lo.shape[-1]), x.lo.shape)
    return _solve(rounding, x, between(unit, unit))

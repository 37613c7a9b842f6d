"""The rules of enclosures: a row's range, error, and where it has no value.

A rule takes the `Rounding` of the engine, the enclosed arguments (`Enclosed`, `Mask`, or arrays of
indices) and the keywords of a batched node, and returns the enclosed result. A row without a rule
raises `Exceeds`; nothing is proven about a program that contains one. Rules run where NumPy is not
to warn (`BoxProgram.run`).

Arguments x, y have ranges [lo, hi] and computed numbers x + e with |e| <= d |x| + a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from gradcheck_cli.search.enclosures.enclosed import (
    ROOT_ULPS,
    Bounds,
    Enclosed,
    Flags,
    Rounding,
    exact,
    ranged,
    rounded,
    unrounded,
    up,
)

_SMALL = 2.0**-20
"""A part of what overflows that does not change whether it does: `Rounding.huge` has a factor of 2
to spare."""
_STEEP = 256.0
"""The exponent from which a power of float64 is not worse for larger ones: measured up to 10^6."""
_ROUGH = 2.0**25
"""Times the smallest normal number: below that a correction of half the digits is flushed, which
costs no more than the smallest normal number. At all float32 numbers, TensorFlow's reciprocals are
off by 1.73 ulps down to 2^-103, and below that by one smallest normal number at most, beside
these."""

Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[F], F]:
    """Enter a rule under the names of rows."""

    def enter(function: F) -> F:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def flags(*xs: Enclosed) -> tuple[Flags, Flags]:
    bad, undefined = xs[0].bad, xs[0].undefined
    for x in xs[1:]:
        bad, undefined = bad | x.bad, undefined | x.undefined
    return bad, undefined


def or_overflowing(x: Enclosed) -> Enclosed:
    """The number for a rule that can take numbers that overflow."""
    return replace(x, bad=x.bad & ~np.asarray(x.overflows))


def as_flushed(rounding: Rounding, x: Enclosed) -> Enclosed:
    """An argument as an engine that flushes subnormal numbers receives it."""
    if not rounding.flush or rounding.exact:
        return x
    small = (x.least - x.error < rounding.normal) & ~(x.away > rounding.normal)
    nothing = (x.lo == 0) & (x.hi == 0) & (x.a == 0)
    exact_or_0 = (x.d == 0) & (x.a <= x.flushed)
    most = np.where(exact_or_0, rounding.normal - rounding.subnormal, rounding.normal)
    taken = np.where(small & ~nothing, np.minimum(most, x.most), 0.0)
    taken = np.maximum(taken - x.flushed, 0.0)  # what is 0 is not flushed once more
    a = np.where(x.a == 0, taken, np.where(taken > 0, up(x.a + taken), x.a))
    flushed = np.where(x.a == 0, taken, x.flushed + taken * (1 - 2.0**-40))
    return replace(x, a=a, flushed=flushed, **_taken_from(rounding, x, taken > 0))


def _taken_from(rounding: Rounding, x: Enclosed, may_be: Flags) -> dict[str, Bounds]:
    """The floor of an argument that `may_be` flushed: numbers of the dtype are flushed up to the
    largest subnormal one."""
    largest = rounding.normal - rounding.subnormal / 2
    held = (x.d == 0) & (x.a == 0)
    own = np.where(held, largest, up((rounding.normal + x.a) / (1 - np.minimum(x.d, 0.5))))
    own = np.where(may_be, own, 0.0)
    known = np.isfinite(x.floor)
    floor, firm = np.where(known, x.floor, own), np.where(known, x.firm, x.a)
    known = known | ((x.d < 0.5) & np.isfinite(own))
    return {"floor": np.where(known, floor, np.inf), "firm": np.where(known, firm, np.inf)}


def floor_of(x: Enclosed) -> tuple[Bounds, Bounds]:
    """The floor of an argument, and its error above that. 0 is not flushed."""
    nothing = _is_exact_zero(x)
    return np.where(nothing, 0.0, x.floor), np.where(nothing, 0.0, np.minimum(x.firm, x.a))


def unless_0(x: Enclosed) -> tuple[Bounds, Flags]:
    """The relative error for a function with a pole at 0, and whether the computed number may have
    been flushed to 0. Then either the result is not finite, or the error is at most this."""
    whole, kept = x.relative, x.unless_0.relative
    soft = ~(whole < 1) & (kept < 1) & ~x.bad
    return np.where(soft, kept, whole), soft


# Arithmetic.


@rule("negative")
def negative(rounding: Rounding, x: Enclosed) -> Enclosed:
    return replace(x, lo=-x.hi, hi=-x.lo)


@rule("add")
def add(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """|e| <= max(dx, dy) |x + y| + ax + ay if x and y have one sign; else the errors dx |x| and dy
    |y| remain. A sum that underflows is exact. A number that overflows still does after something
    much smaller is added, and what is flushed is next to nothing beside a larger number. A sum of
    two numbers in float64 has the sign of the exact one, and is 0 only if that is."""
    if rounding.exact:
        ends = x.lo + y.lo, x.hi + y.hi
        return ranged(Enclosed(*ends, x.d, x.a, *flags(x, y)), ends[0] >= 0, ends[1] <= 0)
    (x, by_x), (y, by_y) = _beside(rounding, x, y), _beside(rounding, y, x)
    lo, hi = x.lo + y.lo, x.hi + y.hi
    alike = ((x.lo >= 0) & (y.lo >= 0)) | ((x.hi <= 0) & (y.hi <= 0))
    errors, sizes = (
        np.stack(np.broadcast_arrays(*pair)) for pair in ((x.d, y.d), (x.most, y.most))
    )
    d, stays = shared(alike, errors, sizes, np.minimum(np.abs(lo), np.abs(hi)), (0,), False)
    d, a = up(d + by_x + by_y), x.a + y.a + up(stays)
    kept = _swallows(rounding, x, y) | _swallows(rounding, y, x)
    bad, undefined = flags(x, y)
    gap = np.minimum(_spacing(rounding, x), _spacing(rounding, y))
    total = Enclosed(lo, hi, d, a, bad & ~kept, undefined, gap=gap)
    u = np.minimum(_absorbing(rounding, x, y), _absorbing(rounding, y, x))
    least = np.where(is_spaced(rounding, x) & is_spaced(rounding, y), 0.0, sums(rounding))
    found = rounded(
        rounding,
        total,
        relative=u,
        in_ulps=True,
        least=least,
        above=lo >= 0,
        below=hi <= 0,
        plain=True,
    )
    return relative(_overflowing(found, kept))


def _absorbing(rounding: Rounding, x: Enclosed, y: Enclosed) -> Bounds:
    """The rounding error of x + y, relative to the power of two below it: at most u. Numbers of the
    dtype beside the computed x are at least u |x| away, so that the sum with a number below u |x| /
    2 is x again: it is off by no more than that number. If x is a product that is fused with the
    sum, the one rounding of both is the one that x already has. The power of two is at least half
    of the sum. In half precision x may have more digits than the dtype."""
    size = y.most + y.error
    apart = size < (x.least - x.error) * rounding.unit / 4
    apart &= (rounding.unit <= 2.0**-24) & (x.least > 4 * rounding.normal) & ~(x.bad | y.bad)
    own = up(2 * size / (x.least - y.most))
    return np.where(apart, np.minimum(own, rounding.unit), rounding.unit)


def _beside(rounding: Rounding, x: Enclosed, y: Enclosed) -> tuple[Enclosed, Bounds]:
    """x without what it loses by being flushed, and that loss as a part of x + y: where x is
    computed as 0, |x| is at most a / (1 - d), so that |x + y| is not below |y| - a / (1 - d)."""
    if not rounding.flush:
        return x, np.zeros(())
    part = np.asarray(x.flushed / (y.least - up(x.a / (1 - x.d))))
    found = (part >= 0) & (part < rounding.unit**2) & (x.d < 1) & ~x.bad
    without = x.unless_0
    a, flushed = np.where(found, without.a, x.a), np.where(found, 0.0, x.flushed)
    return replace(x, a=a, flushed=flushed), np.where(found, up(part), 0.0)


def _spacing(rounding: Rounding, x: Enclosed) -> Bounds:
    """A number of which all exact numbers of this size, or larger, are multiples in the dtype, and
    so are their sums."""
    held = (x.d == 0) & (x.a == 0) & (x.least >= rounding.normal)
    return np.where(held, x.least * rounding.unit, np.where(_is_exact_zero(x), np.inf, 0.0))


def is_spaced(rounding: Rounding, x: Enclosed) -> Flags:
    """Whether computed numbers are 0 or so large that no sum of them is subnormal. A number of a
    dtype is a multiple of u times its size, and a product that is fused with a sum of u^2 times
    its size."""
    if not rounding.flush:
        return np.zeros(x.bad.shape, np.bool_)
    unit = min(rounding.unit, 2.0**-24)  # half precision may be computed in float32
    size = np.where(_is_exact_zero(x), np.inf, x.least * (1 - x.d) - x.a)
    return np.asarray((size * unit**2 > 8 * rounding.normal) & ~x.bad)


def shared(
    alike: Flags, d: Bounds, most: Bounds, least: Bounds, axes: tuple[int, ...], keepdims: bool
) -> tuple[Bounds, Bounds]:
    """The effect of errors d |v| of numbers v, of size at most `most`, on their sum along axes, of
    size at least `least`: a relative one if they are `alike` in sign, and an absolute one. The
    largest d holds for a sum of one sign. If only small numbers have a large d, the least d is
    used, plus an absolute error for the rest."""
    how: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    largest, common = np.max(d, initial=0.0, **how), np.min(d, axis=axes, keepdims=True)
    beyond, apart = (np.sum(times(part, most), **how) for part in (d - common, d))
    common = common if keepdims else np.squeeze(common, axes)
    split = alike & (up(common + beyond / least) < largest)
    found = np.where(alike, np.where(split, common, largest), 0.0)
    return found, np.where(alike, np.where(split, beyond, 0.0), apart)


def _swallows(rounding: Rounding, x: Enclosed, y: Enclosed) -> Flags:
    """Whether x overflows and keeps its sign, and its size to 20 bits, when y is added. A number
    may be the sum of thousands of such terms."""
    return np.asarray(x.overflows & ~y.bad & (y.most + y.error < rounding.huge * _SMALL))


def _overflowing(x: Enclosed, kept: Flags) -> Enclosed:
    """A result that overflows because an argument does, as long as its own error is known."""
    return replace(x, bad=x.bad | kept, overflows=x.overflows | (kept & ~x.bad))


def sums(rounding: Rounding) -> float:
    """The cost of underflow for a sum: nothing, unless subnormal results are flushed."""
    return rounding.normal if rounding.flush else 0.0


def relative(x: Enclosed) -> Enclosed:
    """The error as a relative one if all numbers have about the same size, so that a later product
    does not combine it with its largest factor."""
    least = x.least
    near = (least > 0) & (x.most <= 4 * least) & (x.a > x.d * least * 2.0**-10)
    d = np.where(near, up(x.d + x.a / least), x.d)
    return replace(x, d=d, a=np.where(near, 0.0, x.a))


@rule("subtract")
def subtract(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    return add(rounding, x, negative(rounding, y))


def products(x: Enclosed, y: Enclosed, same: bool) -> tuple[Bounds, Bounds]:
    """The range of x y; `same`: of x^2, which is not below 0. 0 times infinity counts as 0, as no
    factor is infinite."""
    if same:
        return np.square(x.least), np.square(x.most)
    corners = [times(p, q) for p in (x.lo, x.hi) for q in (y.lo, y.hi)]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def times(p: Bounds, q: Bounds) -> Bounds:
    return np.where((p == 0) | (q == 0), 0.0, p * q)


@rule("multiply")
def multiply(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    for one, other in ((x, y), (y, x)):
        if _is(one, 1.0):
            other = as_flushed(rounding, other)
            whole = replace(other, undefined=one.undefined | other.undefined)
            return _spread(whole, np.broadcast_shapes(x.lo.shape, y.lo.shape))
    above = ((x.lo >= 0) & (y.lo >= 0)) | ((x.hi <= 0) & (y.hi <= 0)) | (x is y)
    below = ((x.lo >= 0) & (y.hi <= 0)) | ((x.hi <= 0) & (y.lo >= 0))
    lo, hi = products(x, y, x is y)
    if rounding.exact:
        found = ranged(Enclosed(lo, hi, x.d, x.a, *flags(x, y)), above, below)
        return _with_zeros(found, (x.most == 0) | (y.most == 0))
    scales = _are_powers_of_two(x) | _are_powers_of_two(y)
    d = up(x.d + y.d + x.d * y.d)
    a = times(x.a, y.most * (1 + y.d)) + times(y.a, x.most * (1 + x.d)) + x.a * y.a
    u = np.where(scales, 0.0, rounding.unit)
    gap = np.nan_to_num(x.away * y.away, nan=0.0)
    kept = _grows(x, y) & _grows(y, x) & (x.bad | y.bad)
    bad, undefined = flags(x, y)
    above_floor = _product_above(x, y) if rounding.flush else {}
    product = Enclosed(lo, hi, d, a, bad & ~kept, undefined, gap=gap, **above_floor)
    found = rounded(
        rounding, product, relative=u, in_ulps=True, above=above, below=below, plain=True
    )
    # the product of what is computed as 0 is 0
    by_x = times(np.asarray(x.flushed), y.most * (1 + y.d) + y.a)
    by_y = times(np.asarray(y.flushed), x.most * (1 + x.d) + x.a - x.flushed)
    found = _also_flushed(found, by_x + by_y)
    return _overflowing(_with_zeros(found, _is_exact_zero(x) | _is_exact_zero(y)), kept)


def _product_above(x: Enclosed, y: Enclosed) -> dict[str, Bounds]:
    """The floor of a product before it is rounded: above that, both factors are above theirs."""
    (x_floor, x_firm), (y_floor, y_firm) = (map(np.asarray, one.above) for one in (x, y))
    firm = times(x_firm, y.most * (1 + y.d)) + times(y_firm, x.most * (1 + x.d)) + x_firm * y_firm
    if x is y:
        return {"floor": x_floor**2, "firm": firm}
    floor = np.maximum(times(x_floor, y.most), times(y_floor, x.most))
    return {"floor": floor, "firm": firm}


def _also_flushed(x: Enclosed, more: Bounds) -> Enclosed:
    """The same, with a further part of its error that counts only where it is computed as 0."""
    more = np.where(x.bad | ~np.isfinite(more), 0.0, more) * (1 - 2.0**-40)
    return replace(x, flushed=np.minimum(x.flushed + more, x.a))


def _grows(x: Enclosed, y: Enclosed) -> Flags:
    """Whether multiplying by y cannot make x smaller, if x may overflow."""
    large = y.least * (1 - y.d) - y.a >= 1
    return np.asarray(~x.bad | (x.overflows & large & (y.least >= 1)))


def _spread(x: Enclosed, shape: tuple[int, ...]) -> Enclosed:
    return x.map(lambda part: np.broadcast_to(part, shape))


def _is_exact_zero(x: Enclosed) -> Flags:
    """Whether the number is 0, also on the engine."""
    return np.asarray((x.most == 0) & (x.a == 0))


def _is(x: Enclosed, number: float) -> bool:
    return bool(np.all(x.lo == number) and np.all(x.hi == number) and not np.any(x.error))


def _are_powers_of_two(x: Enclosed) -> Flags:
    """Mark exact powers of two. Products with them are exact, except for underflow."""
    return np.asarray((np.frexp(np.abs(x.lo))[0] == 0.5) & (x.lo == x.hi) & (x.error == 0))


def _with_zeros(x: Enclosed, nothing: Flags) -> Enclosed:
    """The result, exactly 0 where a factor is exactly 0 and the other one is finite."""
    at = nothing & ~x.bad
    lo, hi, d, a = (np.where(at, 0.0, part) for part in (x.lo, x.hi, x.d, x.a))
    return replace(x, lo=lo, hi=hi, d=d, a=a)


# What stays nan or infinite.


def stays_broken(rounding: Rounding, op: str, xs: Sequence[Any]) -> Flags | bool:
    """Whether the result of a row is certainly nan or infinite because an argument is. A sum counts
    only if the other number cannot undo the overflow of a product that is fused with it."""
    if rounding.exact or op not in _STAYS or not all(isinstance(x, Enclosed) for x in xs):
        return False
    if op not in ("add", "subtract"):
        broken = np.broadcast_arrays(*(x.broken for x in xs[: _STAYS[op]]))
        return np.asarray(np.logical_or.reduce(broken))
    x, y = xs[0], xs[1] if op == "add" else negative(rounding, xs[1])
    alike = ((x.lo >= 0) & (y.lo >= 0)) | ((x.hi <= 0) & (y.hi <= 0))
    tiny = rounding.largest * rounding.unit
    by_x = x.broken & (alike | y.broken | (y.most + y.error < tiny))
    by_y = y.broken & (alike | (x.most + x.error < tiny))
    return np.asarray(by_x | by_y)


_STAYS = {
    "negative": 1,
    "abs": 1,
    "sqrt": 1,
    "log": 1,
    "add": 2,
    "subtract": 2,
    "multiply": 2,
    "divide": 1,
}
"""Rows, and how many of their arguments break the result."""


@rule("square")
def _square(rounding: Rounding, x: Enclosed) -> Enclosed:
    return multiply(rounding, x, x)


@rule("divide")
def divide(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """|e| <= (dx + r) / (1 - r) |q| + ax / (|y| (1 - r)), where r = dy + ay / |y| is below 1. The
    quotient is almost 0 if the divisor overflows, or if its reciprocal may be flushed."""
    above = ((x.lo >= 0) & (y.lo > 0)) | ((x.hi <= 0) & (y.hi < 0))
    below = ((x.lo >= 0) & (y.hi < 0)) | ((x.hi <= 0) & (y.lo > 0))
    pole = (y.lo <= 0) & (y.hi >= 0)
    corners = [p / q for p in (x.lo, x.hi) for q in (y.lo, y.hi)]
    lo, hi = np.minimum.reduce(corners), np.maximum.reduce(corners)
    lo, hi = np.where(pole, -np.inf, lo), np.where(pole, np.inf, hi)
    if rounding.exact:
        bad, undefined = flags(x, y)
        return ranged(Enclosed(lo, hi, x.d, x.a, bad | pole, undefined | pole), above, below)
    r, soft = unless_0(y)
    hits = pole | ~(r < 1)
    d = up((x.d + r) / (1 - r))
    a = np.where(x.a == 0, 0.0, up(x.a / (y.least * (1 - r))))
    # a divisor for which the quotient overflows may be flushed: infinite either way
    low = (x.least - x.error) * (1 - 2.0**-40) / (y.most + y.unless_0.error)
    broken = (low > rounding.overflow) & ~x.bad & ~y.bad
    large = y.most + y.error
    beyond = y.overflows | (rounding.flush & ~(large < rounding.huge * (1 - _SMALL)))
    more = np.where(beyond, up((x.most + x.error) / (rounding.huge * (1 - _SMALL))), 0.0)
    hits |= _reciprocal_overflows(rounding, y)
    rough = rounding.inverts & ~(large * rounding.normal < 0.5)  # a subnormal reciprocal
    more = more + np.where(rough, up((x.most + x.error) * rounding.subnormal), 0.0)
    bad, undefined = flags(x, or_overflowing(y))
    gap = np.nan_to_num(x.away / (y.most + y.error), nan=0.0)
    result = Enclosed(lo, hi, d, a + more, bad | hits, undefined | pole, gap=gap)
    if rounding.flush:
        floor, firm = x.above
        firm = np.where(firm == 0, 0.0, up(firm / (y.least * (1 - r)))) + more
        result = replace(result, floor=np.nan_to_num(floor / y.least, nan=np.inf), firm=firm)
    scales = _are_powers_of_two(y) & (y.most * rounding.normal < 0.5)
    inverted = _are_powers_of_two(x)  # a reciprocal that is multiplied exactly
    u = np.where(scales, 0.0, np.where(inverted, rounding.unit, rounding.quotient))
    once = not rounding.inverts or bool(np.all(inverted))
    found = rounded(
        rounding, result, relative=u, in_ulps=once, above=above, below=below, plain=True
    )
    found = _also_flushed(found, np.asarray(x.flushed / (y.least * (1 - r))))
    found = _with_zeros(found, _is_exact_zero(x) & ~hits & ~soft)
    return replace(
        found,
        bad=found.bad | soft | broken,
        broken=found.broken | broken,
        overflows=found.overflows & ~soft & ~broken,
    )


def _reciprocal_overflows(rounding: Rounding, y: Enclosed) -> Flags:
    """Whether 1 / y may be infinite in the dtype, for an engine that multiplies by it. An engine
    that flushes has y = 0 then."""
    near = (y.least - y.error) * rounding.largest * (1 - 4 * rounding.unit) <= 1
    return np.asarray(rounding.inverts & (not rounding.flush) & near)


@rule("reciprocal")
def _reciprocal(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Some engines refine an estimate of half the digits, with a correction that may be flushed."""
    found = divide(rounding, exact(np.ones(x.lo.shape)), x)
    if not rounding.loose:
        return found
    found = _estimated(rounding, found)
    rough = rounding.flush & ~(found.least > _ROUGH * rounding.normal)
    a = found.a + np.where(rough, 2 * rounding.normal, 0.0)
    return replace(found, a=a, floor=np.inf, firm=np.inf)


@rule("sqrt")
def sqrt(rounding: Rounding, number: Enclosed, *, not_below_0: bool = False) -> Enclosed:
    """|sqrt(x + e) - sqrt(x)| <= d sqrt(x) + sqrt(a), or a / sqrt(x), if x + e is not below 0:
    because e is small, or by `not_below_0` (`facts.signed`). The slope has a pole at 0. If x
    overflows, its root is infinite or right."""
    x = or_overflowing(number)
    lo, hi = np.sqrt(np.maximum(x.lo, 0)), np.sqrt(np.maximum(x.hi, 0))
    bad, undefined = flags(x)
    below = ~(x.lo - x.d * np.abs(x.lo) - x.unless_0.a >= 0)  # 0 itself has a root
    bad = bad | (below & (not not_below_0)) | (x.d >= 1)
    apart = np.where(x.a == 0, 0.0, np.minimum(np.sqrt(x.a), x.a / (lo * np.sqrt(1 - x.d))))
    d = x.d / (1 + np.sqrt(1 - np.minimum(x.d, 1)))
    undefined = undefined | (x.lo <= 0)
    own = min(rounding.library, 2 * ROOT_ULPS * rounding.unit)
    root = Enclosed(lo, hi, up(d), up(apart), bad, undefined)
    found = rounded(rounding, root, relative=own, in_ulps=not rounding.loose, above=True)
    return replace(found, bad=found.bad | number.bad)


@rule("rsqrt")
def _rsqrt(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Some engines refine an estimate, to all digits but the last ones."""
    found = divide(rounding, exact(np.ones(x.lo.shape)), sqrt(rounding, x))
    if not rounding.loose:
        return found
    return _estimated(rounding, found)


def _estimated(rounding: Rounding, found: Enclosed) -> Enclosed:
    """Such a reciprocal or root, with its error besides that of one rounding. Reciprocals of powers
    of two are not exact either."""
    more = rounding.library - (rounding.unit if rounding.is_measured else 0.0)
    return replace(found, d=up(found.d + more), gap=found.gap * (1 - 2 * more))


@rule("abs")
def _abs(rounding: Rounding, x: Enclosed) -> Enclosed:
    found = unrounded(x.least, x.most, x.d, x.a, x.bad, x.undefined)
    return replace(found, flushed=x.flushed, gap=x.gap, floor=x.floor, firm=x.firm)


@rule("power")
def _power(rounding: Rounding, x: Enclosed, n: Enclosed) -> Enclosed:
    """x^n for one exact exponent: 1, an integer, or a real one with a base above 0; else exp(n log
    x)."""
    if not (np.all(n.lo == n.lo.flat[0]) and np.all(n.hi == n.lo) and not np.any(n.error)):
        return _power_of_both(rounding, x, n)
    p = float(n.lo.flat[0])
    if p == 0:
        one = exact(np.ones(np.broadcast_shapes(x.lo.shape, n.lo.shape)))
        return replace(one, undefined=one.undefined | x.undefined)
    if p == 1:
        return x
    if p.is_integer():
        return _whole_power(rounding, x, p)
    return _real_power(rounding, x, p)


def _whole_power(rounding: Rounding, x: Enclosed, p: float) -> Enclosed:
    """x^n is computed as a product of n factors or by a library, and x^-n also as 1 / x^n, which is
    0 or infinite if x^n is out of range."""
    bad, undefined = flags(x)
    gap: Any = 0.0
    own = max(_of_power(rounding, abs(p)), abs(p) * rounding.unit)
    least: Any = max(rounding.library_least, abs(p) * rounding.least)
    if p > 0:  # a product that is flushed on the way is smaller at the end
        least = np.minimum(least, x.most**p + rounding.coarse) if rounding.flush else least
        lo, hi = (_odd(x.lo, p), _odd(x.hi, p)) if p % 2 else (x.least**p, x.most**p)
        d = (1 + x.d) ** p - 1
        a = np.where(x.a == 0, 0.0, p * x.a * (x.most * (1 + x.d) + x.a) ** (p - 1))
        gap = np.nan_to_num(x.away**p * (1 - min(own, 1.0)), nan=0.0)
    else:
        r = x.relative
        pole = (x.lo <= 0) & (x.hi >= 0)
        ends = x.least**p, x.most**p
        negative = (x.hi <= 0) & (p % 2 != 0)
        lo, hi = np.minimum(*ends), np.maximum(*ends)
        lo, hi = np.where(negative, -hi, lo), np.where(negative, -lo, hi)
        lo, hi = np.where(pole, -np.inf if p % 2 else 0.0, lo), np.where(pole, np.inf, hi)
        d = np.maximum(np.abs((1 + r) ** p - 1), np.abs((1 - r) ** p - 1))
        below, beyond = (x.least * (1 - r)) ** -p, (x.most * (1 + r)) ** -p
        small = ~(below * (1 - own) > 2 * rounding.normal)
        lost = ~(beyond * (1 + own) <= rounding.largest)  # the result is below 1 / largest
        a = np.where(lost, 2 / rounding.largest, 0.0)
        bad, undefined = bad | pole | ~(r < 1) | small, undefined | pole
    above = (x.lo >= 0) | (p % 2 == 0)
    power = Enclosed(lo, hi, up(d), up(a), bad, undefined, gap=gap)
    found = rounded(rounding, power, relative=own, least=least, above=above)
    return _with_zeros(found, _is_exact_zero(x)) if p > 0 else found


def _of_power(rounding: Rounding, exponent: Any) -> Any:
    """The relative error of a library's power for an exponent of this size, at most."""
    return rounding.library + rounding.steeper * np.minimum(exponent, _STEEP)


def _real_power(rounding: Rounding, x: Enclosed, p: float) -> Enclosed:
    """For a base above 0: |(x + e)^p - x^p| <= |(1 + r)^p - 1| x^p. If p is above 0, the power of 0
    is 0. So is that of a number that was flushed; the exact number is then at most a / (1 - d)."""
    bad, undefined = flags(x)
    a = np.zeros(x.lo.shape)
    r = x.relative
    pole = x.lo <= 0
    low, high = np.maximum(x.lo, 0.0) ** p, np.maximum(x.hi, 0.0) ** p
    lo, hi = np.minimum(low, high), np.maximum(low, high)
    d = np.maximum(np.abs((1 + r) ** p - 1), np.abs((1 - r) ** p - 1))
    bad = bad | pole | ~(r < 1)
    if p > 0:
        edge = (x.lo == 0) & (x.unless_0.a == 0) & (x.d < 1)
        bad = np.where(edge, x.bad, bad)
        a = np.where(edge, up((x.a / (1 - x.d)) ** p), a)
        d = np.where(edge, np.maximum((1 + x.d) ** p - 1, 1 - (1 - x.d) ** p), d)
    power = Enclosed(lo, hi, up(d), a, bad, undefined | pole)
    u, least = _of_power(rounding, abs(p)), rounding.library_least
    return rounded(rounding, power, relative=u, least=least, above=True)


def _power_of_both(rounding: Rounding, x: Enclosed, n: Enclosed) -> Enclosed:
    """exp(n log x) for x above 0: n log x moves by |n| |log(1 - r)| + |e_n| |log x|. If the
    exponent is so large that (1 - 2 u)^n underflows, TensorFlow returns 0 or infinity even for x =
    1 - u."""
    r = x.relative
    pole = x.lo <= 0
    logs = np.log(np.maximum(x.lo, 0)), np.log(np.maximum(x.hi, 0))
    corners = [np.exp(times(p, q)) for p in logs for q in (n.lo, n.hi)]
    lo, hi = np.minimum.reduce(corners), np.maximum.reduce(corners)
    longest = np.maximum(np.abs(logs[0]), np.abs(logs[1]))
    base = np.where(r == 0, 0.0, -np.log1p(-r))
    e = n.error
    moved = up(times(n.most + e, base) + times(e, longest))
    slop = 2.0**-45 * np.maximum(1.0, n.most * longest)
    lo, hi = lo * np.maximum(1 - slop, 0), hi * (1 + slop)
    d = up(np.expm1(moved))
    bad, undefined = flags(x, n)
    huge = rounding.loose & ~((n.most + e) * 2 * rounding.unit < 0.99 * np.log(rounding.largest))
    bad = bad | pole | ~(r < 1) | ~np.isfinite(d) | huge
    lo, hi = np.where(pole, -np.inf, lo), np.where(pole, np.inf, hi)
    zero = np.zeros(np.shape(d))
    power = Enclosed(lo, hi, d, zero, bad, undefined | pole)
    u, least = _of_power(rounding, n.most + e), rounding.library_least
    return rounded(rounding, power, relative=u, least=least, above=~pole)


def _odd(x: Bounds, p: float) -> Bounds:
    return np.sign(x) * np.abs(x) ** p

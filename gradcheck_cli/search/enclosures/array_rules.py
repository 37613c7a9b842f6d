"""The rules of rows that choose, compare, move and add up numbers (see `rules`)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Exceeds,
    Flags,
    Mask,
    Places,
    Rounding,
    between,
    exact,
    literals,
    outward,
    power_of_two_below,
    ranged,
    rounded,
    unrounded,
    up,
)
from gradcheck_cli.search.enclosures.rules import (
    RULES,
    Rule,
    floor_of,
    is_spaced,
    multiply,
    negative,
    products,
    relative,
    rule,
    shared,
    sqrt,
    subtract,
    sums,
)
from reference_engine.rules import axes_of
from reference_engine.traced import ROWS


def as_enclosed(x: Any) -> Enclosed:
    """Masks as the numbers 0 and 1, and integers, as enclosures."""
    if isinstance(x, Enclosed):
        return x
    if isinstance(x, Places):
        raise no_rule("arithmetic of places that depend on numbers")
    if not isinstance(x, Mask):
        return exact(x)
    no = np.zeros(x.true.shape, np.bool_)
    apart = np.where(x.agree, 0.0, 1.0)
    lo, hi = np.where(x.false, 0.0, 1.0), np.where(x.true, 1.0, 0.0)
    return Enclosed(lo, hi, np.zeros(lo.shape), apart, no, x.undefined)


# Comparisons and choices.


def _compared(x: Enclosed, y: Enclosed) -> tuple[Bounds, Bounds, Bounds]:
    """The range of x - y, and the largest distance of the computed difference from it. Infinite
    constants compare correctly with all numbers."""
    lo, hi = x.lo - y.hi, x.hi - y.lo
    kept = (keeps_sign(x) & _is_exact_zero(y)) | (keeps_sign(y) & _is_exact_zero(x))
    e = np.where(kept, 0.0, x.error + y.error)
    e = np.where(x.bad | y.bad, np.inf, e)
    beyond = (_is_infinite(x) & ~y.bad) | (_is_infinite(y) & ~x.bad)
    e = np.where(beyond, 0.0, e)
    return _without_nan(lo, -np.inf), _without_nan(hi, np.inf), e


def keeps_sign(x: Enclosed) -> Flags:
    """Whether the computed number has the sign of the exact one, and is 0 if that is."""
    return np.asarray((x.d < 1) & (x.a == 0))


def _keeps_sign_or_0(x: Enclosed) -> Flags:
    """Whether the computed number has the sign of the exact one, or was flushed to 0."""
    return keeps_sign(x.unless_0)


def _is_infinite(x: Enclosed) -> Flags:
    return np.asarray((x.lo == x.hi) & np.isinf(x.lo))


def _is_exact_zero(x: Enclosed) -> Flags:
    return np.asarray((x.most == 0) & (x.a == 0))


def _without_nan(bounds: Bounds, end: float) -> Bounds:
    return np.where(np.isnan(bounds), end, bounds)


def _computed_range(lo: Bounds, hi: Bounds, e: Bounds) -> tuple[Bounds, Bounds]:
    """The range of the computed difference."""
    low, high = np.where(e == 0, lo, lo - e), np.where(e == 0, hi, hi + e)
    return _without_nan(low, -np.inf), _without_nan(high, np.inf)


def _mask(rounding: Rounding, x: Enclosed, y: Enclosed, strict: bool) -> Mask:
    """x > y, or x >= y."""
    x, y = as_enclosed(x), as_enclosed(y)
    lo, hi, e = _compared(x, y)
    e = np.where((e > 0) & rounding.flush, e + rounding.normal, e)
    low, high = _computed_range(lo, hi, e)
    flushed = (_keeps_sign_or_0(x) & _is_exact_zero(y)) | (_keeps_sign_or_0(y) & _is_exact_zero(x))
    flushed &= ~(x.bad | y.bad)  # a flushed number is 0, or keeps its sign
    low = np.where(flushed, np.maximum(low, np.minimum(lo, 0.0)), low)
    high = np.where(flushed, np.minimum(high, np.maximum(hi, 0.0)), high)
    true, false = (hi > 0, lo <= 0) if strict else (hi >= 0, lo < 0)
    computed_true = high > 0 if strict else high >= 0
    computed_false = low <= 0 if strict else low < 0
    settled = (true != false) & (computed_true == true) & (computed_false == false)
    tie, undefined = (lo <= 0) & (hi >= 0), x.undefined | y.undefined
    return Mask(true, false, computed_true, computed_false, (e == 0) | settled, tie, undefined)


RULES["greater"] = lambda rounding, x, y: _mask(rounding, x, y, True)
RULES["greater_equal"] = lambda rounding, x, y: _mask(rounding, x, y, False)
RULES["less"] = lambda rounding, x, y: _mask(rounding, y, x, True)
RULES["less_equal"] = lambda rounding, x, y: _mask(rounding, y, x, False)


@rule("equal")
def _equal(rounding: Rounding, x: Enclosed, y: Enclosed) -> Mask:
    """A number equals itself, unless it is nan."""
    if x is y:
        x = as_enclosed(x)
        yes, no = np.ones(x.bad.shape, np.bool_), np.zeros(x.bad.shape, np.bool_)
        return Mask(yes, no, yes, x.bad, ~x.bad, no, x.undefined)
    x, y = as_enclosed(x), as_enclosed(y)
    lo, hi, e = _compared(x, y)
    low, high = _computed_range(lo, hi, e)
    tie = (lo <= 0) & (hi >= 0)
    false = ~((lo == 0) & (hi == 0))
    computed = (low <= 0) & (high >= 0)
    apart = ~((low == 0) & (high == 0))
    agree = (e == 0) | (~tie & ~computed)
    return Mask(tie, false, computed, apart, agree, tie, x.undefined | y.undefined)


@rule("not_equal")
def _not_equal(rounding: Rounding, x: Enclosed, y: Enclosed) -> Mask:
    return _not(rounding, _equal(rounding, x, y))


@rule("logical_not")
def _not(rounding: Rounding, x: Mask) -> Mask:
    return replace(
        x,
        true=x.false,
        false=x.true,
        computed_true=x.computed_false,
        computed_false=x.computed_true,
    )


@rule("logical_and")
def _and(rounding: Rounding, x: Mask, y: Mask) -> Mask:
    """If one mask is false at all points, the other one does not matter."""
    x, y = as_mask(x), as_mask(y)
    never = ~(x.true | x.computed_true) | ~(y.true | y.computed_true)
    return Mask(
        x.true & y.true,
        x.false | y.false,
        x.computed_true & y.computed_true,
        x.computed_false | y.computed_false,
        (x.agree & y.agree) | never,
        (x.tie | y.tie) & ~never,
        x.undefined | y.undefined,
    )


@rule("logical_or")
def _or(rounding: Rounding, x: Mask, y: Mask) -> Mask:
    x, y = as_mask(x), as_mask(y)
    return _not(rounding, _and(rounding, _not(rounding, x), _not(rounding, y)))


@rule("all")
def _all_rule(rounding: Rounding, x: Mask, *, axis: Any = None, keepdims: bool = False) -> Mask:
    x = as_mask(x)
    how: dict[str, Any] = {"axis": axes_of(axis, x.true.ndim), "keepdims": keepdims}
    every = np.all(x.true, **how), np.any(x.false, **how)
    computed = np.all(x.computed_true, **how), np.any(x.computed_false, **how)
    some = (np.any(part, **how) for part in (x.tie, x.undefined))
    return Mask(*every, *computed, np.all(x.agree, **how), *some)


@rule("any")
def _any_rule(rounding: Rounding, x: Mask, **how: Any) -> Mask:
    return _not(rounding, _all_rule(rounding, _not(rounding, as_mask(x)), **how))


def as_mask(x: Any) -> Mask:
    """Plain booleans as a mask."""
    if isinstance(x, Mask):
        return x
    if isinstance(x, Enclosed | Places):
        raise no_rule("a choice by numbers")
    plain = np.asarray(x, np.bool_)
    yes, no = np.ones(plain.shape, np.bool_), np.zeros(plain.shape, np.bool_)
    return Mask(plain, ~plain, plain, ~plain, yes, no, no)


@rule("where")
def _where_rule(rounding: Rounding, mask: Mask, x: Enclosed, y: Enclosed) -> Enclosed:
    """If both sides are possible, both count. If the engine may choose another side than exact
    arithmetic, the error may be the whole range. At a tie, the result may jump."""
    mask, x, y = as_mask(mask), as_enclosed(x), as_enclosed(y)
    lo = np.minimum(np.where(mask.true, x.lo, np.inf), np.where(mask.false, y.lo, np.inf))
    hi = np.maximum(np.where(mask.true, x.hi, -np.inf), np.where(mask.false, y.hi, -np.inf))
    of_x, of_y = mask.computed_true, mask.computed_false
    bad = (of_x & x.bad) | (of_y & y.bad)
    d = np.maximum(np.where(of_x, x.d, 0.0), np.where(of_y, y.d, 0.0))
    apart = np.maximum(np.maximum(x.hi, y.hi) - np.minimum(x.lo, y.lo), 0.0)
    wrong = up(apart + x.error + y.error)
    a = np.maximum(np.where(of_x, x.a, 0.0), np.where(of_y, y.a, 0.0))
    a = np.where(mask.agree, a, wrong)
    same = (x.lo == x.hi) & (y.lo == y.hi) & (x.lo == y.lo)
    jump = mask.tie & ~same
    undefined = (mask.true & x.undefined) | (mask.false & y.undefined) | jump | mask.undefined
    bad = bad | ~(mask.agree | np.isfinite(wrong))
    found = unrounded(lo, hi, d, _without_nan(a, np.inf), bad, undefined)
    gap = np.minimum(np.where(of_x, x.away, np.inf), np.where(of_y, y.away, np.inf))
    gap = np.where(mask.agree, gap, 0.0)
    found = replace(found, broken=(x.broken | ~of_x) & (y.broken | ~of_y), gap=gap)
    if not rounding.flush:
        return found
    (x_floor, x_firm), (y_floor, y_firm) = floor_of(x), floor_of(y)
    floor, firm = (
        np.maximum(np.where(of_x, one, 0.0), np.where(of_y, other, 0.0))
        for one, other in ((x_floor, y_floor), (x_firm, y_firm))
    )
    known = mask.agree & ~bad & np.isfinite(floor)
    return replace(found, floor=np.where(known, floor, np.inf), firm=np.where(known, firm, np.inf))


@rule("maximum")
def _maximum(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """|e| <= max(dx, dy) |max(x, y)| + max(ax, ay) for d below 1: the smaller number y, which may
    be computed as the larger one, is computed as at most y + dy |y| + ay, which increases with y.
    An engine that flushes may confuse two numbers that are 0 to it: both are below the smallest
    normal one. If the larger number is above the floors, the other one is computed as it should be,
    or as 0, or it is above its floor, too. A constant -inf, as of what a mask leaves out, is never
    chosen."""
    x, y = as_enclosed(x), as_enclosed(y)
    x, y = _besides_nothing(x, y), _besides_nothing(y, x)
    alike = rounding.flush & (x.a > 0) & (y.a > 0)
    lo, hi = np.maximum(x.lo, y.lo), np.maximum(x.hi, y.hi)
    small = (x.d < 1) & (y.d < 1)
    d = np.where(small, np.maximum(x.d, y.d), 0.0)
    a = np.where(small, np.maximum(x.a, y.a), np.maximum(x.error, y.error))
    a = np.where(alike, up(a + rounding.normal), a)
    for one, other in ((x, y), (y, x)):  # one of them is certainly chosen
        ahead = one.lo - one.error > other.hi + other.error
        d, a = np.where(ahead, one.d, d), np.where(ahead, one.a, a)
    bad, undefined = x.bad | y.bad, x.undefined | y.undefined
    found = replace(unrounded(lo, hi, d, up(a), bad, undefined), gap=np.minimum(x.away, y.away))
    if not rounding.flush:
        return found
    (x_floor, x_firm), (y_floor, y_firm) = floor_of(x), floor_of(y)
    firm = np.maximum(x_firm, y_firm)
    both = up((rounding.normal + firm) / (1 - np.minimum(d, 0.5)))
    both = np.where((d == 0) & (firm == 0), rounding.normal, both)
    floor = np.maximum(np.maximum(x_floor, y_floor), np.where(alike, both, 0.0))
    as_0 = (x.unless_0.a <= firm) & (y.unless_0.a <= firm)
    known = small & as_0 & (d < 0.5) & ~bad & np.isfinite(floor)
    return replace(found, floor=np.where(known, floor, np.inf), firm=np.where(known, firm, np.inf))


def _besides_nothing(x: Enclosed, y: Enclosed) -> Enclosed:
    """x, or y where x is a constant -inf."""
    nothing = x.hi == -np.inf
    if not np.any(nothing):
        return x
    pairs = zip(y.parts, x.parts, strict=True)
    return Enclosed(*(np.where(nothing, *pair) for pair in pairs))


@rule("minimum")
def _minimum(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    x, y = negative(rounding, as_enclosed(x)), negative(rounding, as_enclosed(y))
    return negative(rounding, _maximum(rounding, x, y))


@rule("relu")
def _relu(rounding: Rounding, x: Enclosed) -> Enclosed:
    return _maximum(rounding, x, exact(np.zeros(x.lo.shape)))


@rule("clip")
def _clip(rounding: Rounding, x: Enclosed, *, min: Any = None, max: Any = None) -> Enclosed:
    if min is not None:
        x = _maximum(rounding, x, _literal(rounding, min, x))
    return x if max is None else _minimum(rounding, x, _literal(rounding, max, x))


@rule("hardtanh")
def _hardtanh(rounding: Rounding, x: Enclosed, *, min: Any = -1.0, max: Any = 1.0) -> Enclosed:
    return _clip(rounding, x, min=min, max=max)


def _literal(rounding: Rounding, number: Any, like: Enclosed) -> Enclosed:
    return literals(rounding, np.full(like.lo.shape, float(number)))


@rule("leaky_relu")
def _leaky_relu(rounding: Rounding, x: Enclosed, *, negative_slope: float = 0.01) -> Enclosed:
    """The larger of x and slope x, or the smaller one if the slope is above 1. Engines compute the
    same, since the rounding of a product with at most 1 preserves the order."""
    scaled = multiply(rounding, x, _literal(rounding, negative_slope, x))
    return (_maximum if negative_slope <= 1 else _minimum)(rounding, x, scaled)


@rule("stop_gradient")
def _stop_gradient(rounding: Rounding, x: Any) -> Any:
    return x


@rule("astype")
def _astype(rounding: Rounding, x: Enclosed, *, dtype: Any) -> Enclosed:
    """A mask, or a number of elements, as numbers of the dtype."""
    if np.dtype(dtype).kind != "f":
        raise no_rule(f"astype of {dtype}")
    return x


@rule("sign")
def _sign(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Its error is 2 if the engine may have the other sign. It jumps at 0."""
    settled = (x.least > x.error) | keeps_sign(x)
    a = np.where(settled, 0.0, 2.0)
    undefined = x.undefined | ((x.lo <= 0) & (x.hi >= 0))
    return unrounded(np.sign(x.lo), np.sign(x.hi), np.zeros(a.shape), a, x.bad, undefined)


# Moves.

MOVES = (
    *("reshape", "broadcast_to", "transpose", "getitem", "expand_dims", "squeeze", "flip"),
    *("moveaxis", "roll", "tile", "repeat", "concatenate", "stack", "take"),
)


def _moves(name: str) -> Any:
    def rule(rounding: Rounding, *xs: Any, **keywords: Any) -> Any:
        if name == "take":
            x, places = xs
            return _movable(x).map(lambda part: ROWS[name].raw(part, places, **keywords))
        if len(xs) == 1:
            if _is_index(xs[0]):
                return ROWS[name].raw(xs[0], **keywords)
            return _movable(xs[0]).map(lambda part: ROWS[name].raw(part, **keywords))
        masks = all(_is_mask(x) for x in xs)
        parts = zip(*((as_mask if masks else as_enclosed)(x).parts for x in xs), strict=True)
        joined = (ROWS[name].raw(*part, **keywords) for part in parts)
        return Mask(*joined) if masks else Enclosed(*joined)

    return rule


def _movable(x: Any) -> Any:
    if isinstance(x, Places):
        return x
    return as_mask(x) if _is_mask(x) else as_enclosed(x)


def _is_index(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "iu"


def _is_mask(x: Any) -> bool:
    return isinstance(x, Mask) or np.asarray(getattr(x, "lo", x)).dtype == np.bool_


RULES.update({name: _moves(name) for name in MOVES})


# Sums.


def accumulated(
    rounding: Rounding, x: Enclosed, axis: Any, keepdims: bool, scale: float = 1.0
) -> Enclosed:
    """The sum along axes, in any order, divided by `scale` for a mean. Its error is (n - 1) u times
    the sum of absolute values, to first order, with a factor for the rest. If partial sums may be
    flushed, that is lost, too. The ends of the range are float64 sums themselves."""
    axes = axes_of(axis, x.lo.ndim)
    count = math.prod(x.lo.shape[i] for i in axes)

    def total(part: Any) -> Any:
        return np.sum(part, axis=axes, keepdims=keepdims)

    above = np.all(x.lo >= 0, axis=axes, keepdims=keepdims)
    below = np.all(x.hi <= 0, axis=axes, keepdims=keepdims)
    bad, undefined = (np.any(f, axis=axes, keepdims=keepdims) for f in (x.bad, x.undefined))
    lost = (count - 1) * 2.0**-52
    lo = (total(x.lo) - lost * total(np.abs(x.lo))) / scale
    hi = (total(x.hi) + lost * total(np.abs(x.hi))) / scale
    if rounding.exact:
        return ranged(Enclosed(lo, hi, x.d, x.a, bad, undefined), above, below)
    gamma = max(count - 1, 0) * rounding.unit
    gamma = gamma / (1 - gamma) if gamma < 1 else np.inf
    most = total(x.most)
    alike = above | below
    d_most = np.max(x.d, axis=axes, keepdims=keepdims, initial=0.0)
    d, stays = shared(alike, x.d, x.most, total(x.least), axes, keepdims)
    d = np.where(alike, up(d + gamma * (1 + d)), 0.0)
    own = gamma * most
    if count == 3:
        own = np.minimum(own, _of_three(rounding, x, axes, total(x.a) + stays + own))
    a = up((total(x.a) + stays) * (1 + gamma) + np.where(alike, 0.0, own))
    apart, spaced = np.zeros(()), np.zeros((), np.bool_)
    if rounding.flush:  # partial sums are flushed, too, if the numbers cancel
        kept = alike & np.all(keeps_sign(x), axis=axes, keepdims=keepdims)
        spaced = np.all(is_spaced(rounding, x), axis=axes, keepdims=keepdims)
        a = up(a + np.where(kept | spaced, 0.0, max(count - 2, 0) * rounding.normal))
        away = np.min(x.away, axis=axes, keepdims=keepdims, initial=np.inf)
        apart = np.where(kept, away, 0.0) / scale
    # no part of it may overflow
    bad = bad | ~(up(most * (1 + d_most) * (1 + gamma) + a) <= rounding.largest)
    once = rounding.unit if scale == 1 else rounding.quotient
    once = 0.0 if count <= 1 and scale == 1 else once
    least = rounding.least if scale != 1 else np.where(spaced, 0.0, sums(rounding))
    mean = Enclosed(lo, hi, d, a / scale, bad, undefined, gap=apart)
    found = rounded(rounding, mean, relative=once, least=least, above=above, below=below)
    return relative(found)


def _of_three(rounding: Rounding, x: Enclosed, axes: tuple[int, ...], off: Bounds) -> Bounds:
    """The rounding errors of the sum of two of three numbers, and of that with the third one, in
    any order. The computed sums are `off` by no more than that."""
    found = np.zeros(off.size)
    flat = [np.moveaxis(end, axes, range(-len(axes), 0)).reshape(-1, 3) for end in (x.lo, x.hi)]
    whole = [np.sum(end, axis=1, keepdims=True) for end in flat]
    pairs = (np.abs(all_of - end) for all_of, end in zip(whole, flat, strict=True))
    slop = off.ravel() + 2.0**-50 * np.sum(np.maximum(*map(np.abs, flat)), axis=1)
    for sizes in (np.maximum(*pairs), np.maximum(*map(np.abs, whole))):
        found = found + rounding.unit * power_of_two_below(up(np.max(sizes, axis=1) + slop))
    return np.nan_to_num(found, nan=np.inf).reshape(off.shape)


@rule("sum")
def _sum(rounding: Rounding, x: Any, *, axis: Any = None, keepdims: bool = False) -> Enclosed:
    return accumulated(rounding, as_enclosed(x), axis, keepdims)


@rule("mean")
def _mean(rounding: Rounding, x: Enclosed, *, axis: Any = None, keepdims: bool = False) -> Enclosed:
    count = math.prod(x.lo.shape[i] for i in axes_of(axis, x.lo.ndim))
    return accumulated(rounding, x, axis, keepdims, float(count))


@rule("prod")
def _prod(rounding: Rounding, x: Enclosed, *, axis: Any = None, keepdims: bool = False) -> Enclosed:
    """The product along axes, in any order. No partial product exceeds the product of all factors
    above 1, and each underflow costs at most `least` times that."""
    flat, kept = in_lines(x, axis)
    count = flat.lo.shape[-1]
    lo, hi = flat.lo[..., 0], flat.hi[..., 0]
    for i in range(1, count):
        lo, hi = outward(*products(between(lo, hi), flat.map(lambda p, i=i: p[..., i]), False))
    growth = np.prod(np.maximum(up(flat.most * (1 + flat.d) + flat.a), 1.0), axis=-1)
    u = (1 + rounding.unit) ** count
    d = up(np.prod(1 + flat.d, axis=-1) * u - 1)
    a = up(growth * u * (np.sum(flat.a, axis=-1) + count * rounding.least))
    bad = np.any(flat.bad, axis=-1) | ~(up(growth * u) <= rounding.largest)
    found = rounded(rounding, Enclosed(lo, hi, d, a, bad, np.any(flat.undefined, axis=-1)))
    return found.map(lambda part: part.reshape(kept)) if keepdims else found


def _running(whole: Rule) -> Rule:
    """The rule applied to all elements up to each one."""

    def found(rounding: Rounding, x: Enclosed, *, axis: int) -> Enclosed:
        flat = x.map(lambda part: np.moveaxis(part, axis, -1))
        parts = [
            whole(rounding, flat.map(lambda p, end=end: p[..., :end]), axis=-1)
            for end in range(1, flat.lo.shape[-1] + 1)
        ]
        stacked = zip(*(one.parts for one in parts), strict=True)
        return Enclosed(*(np.moveaxis(np.stack(p, axis=-1), -1, axis) for p in stacked))

    return found


RULES["cumsum"] = _running(_sum)
RULES["cumprod"] = _running(_prod)


@rule("matmul", "dot")
def _matmul(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """Products of all pairs, added up; kernels may fuse both."""
    left = x.map(lambda part: part[..., :, :, None])
    right = y.map(lambda part: part[..., None, :, :])
    return accumulated(rounding, multiply(rounding, left, right), -2, False)


@rule("outer")
def _outer(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """The product of two vectors; for a batch, an elementwise product."""
    return multiply(rounding, x.map(lambda part: part[:, None]), y)


@rule("einsum")
def _einsum(rounding: Rounding, *xs: Enclosed, subscripts: str) -> Enclosed:
    """Products of two arrays, added up over the labels that the result lacks."""
    given, result = subscripts.split("->")
    labels = given.split(",")
    if len(xs) != 2 or any(len(set(part)) < len(part) for part in labels):
        raise no_rule(f"einsum of {subscripts}")
    inner = "".join(sorted(set(given) - {",", *result}))
    whole = result + inner
    x, y = (
        one.map(lambda part, mine=mine: _to_labels(part, mine, whole))
        for one, mine in zip(xs, labels, strict=True)
    )
    product = multiply(rounding, x, y)
    if not inner:
        return product
    return accumulated(rounding, product, tuple(range(-len(inner), 0)), False)


def _to_labels(part: Any, labels: str, whole: str) -> Any:
    """The array with the axes of `whole`; a label that it lacks has length 1."""
    order = [labels.index(one) for one in whole if one in labels]
    return np.expand_dims(
        np.transpose(part, order), tuple(i for i, one in enumerate(whole) if one not in labels)
    )


def _extreme(pair: str) -> Any:
    def rule(
        rounding: Rounding, x: Enclosed, *, axis: Any = None, keepdims: bool = False
    ) -> Enclosed:
        flat, kept = in_lines(x, axis)
        best = flat.map(lambda p: p[..., 0])
        for i in range(1, flat.lo.shape[-1]):
            best = RULES[pair](rounding, best, flat.map(lambda p, i=i: p[..., i]))
        return best.map(lambda p: p.reshape(kept)) if keepdims else best

    return rule


RULES["max"] = _extreme("maximum")
RULES["min"] = _extreme("minimum")
RULES["cummax"] = _running(RULES["max"])
RULES["cummin"] = _running(RULES["min"])


# Rows that are fused, because their parts forget what they have in common.


_EXP_ULPS = 6
"""Times the error of a function of a library: PyTorch's softmax, and log_softmax, take an
exponential that is right to 20 ulps."""


@dataclass(frozen=True, slots=True)
class _Exponentials:
    """exp(x - max x) along an axis: `moved`, the largest error of the arguments; `rest`, a bound on
    the sum without its largest term; `off`, the relative error of the sum as a difference of
    logarithms; and `each`, that of the single exponentials."""

    moved: Bounds
    rest: Bounds
    off: Bounds
    each: Bounds


def _exponentials(
    rounding: Rounding, x: Enclosed, axis: int, times: float = _EXP_ULPS
) -> _Exponentials:
    """The error of each exponential is `times` that of a library function. The largest number has
    exp(0), which is 1 in every engine. For others, x - max x is rounded: by u t at a distance t,
    and u t exp(-t) is below 0.37 u. The sum is at least 1."""
    count, u = x.lo.shape[axis], rounding.unit
    e = np.where(x.bad, np.inf, x.error)
    low, high = x.lo - e, x.hi + e
    top = np.max(low, axis=axis, keepdims=True)
    near = np.maximum(top - high, 0.0)
    far = np.max(high, axis=axis, keepdims=True) - low
    parts = np.exp(-near) * (1 + 2.0**-40)
    own = times * rounding.library
    terms = parts * own + u * np.where(near > 1, near * parts, 0.37) + rounding.library_least
    rest, off = (  # without one that may be the largest
        up(np.sum(p, axis=axis, keepdims=True) - np.max(p, axis=axis, keepdims=True))
        for p in (parts, terms)
    )
    off = off * (1 + own + u * far.max(axis=axis, keepdims=True)) + 2 * (count - 1) * u
    off = np.where(off < 0.5, -np.log1p(-off), np.inf)
    order = np.sort(high, axis=axis)
    best, second = (np.take(order, [-i], axis=axis) for i in (1, min(2, count)))
    others = np.where(high == best, second, best)
    each = np.where((low > others) | (count == 1), 0.0, up(own + u * far))
    moved = np.max(e, axis=axis, keepdims=True)
    return _Exponentials(
        moved, rest + count * 2.0**-50, off, np.where(np.isnan(each), np.inf, each)
    )


def _only_axis(axis: Any) -> int:
    axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) != 1:
        raise no_rule("softmax along several axes")
    return int(axes[0])


@rule("softmax")
def _softmax(rounding: Rounding, x: Enclosed, *, axis: Any = -1) -> Enclosed:
    """p_i = 1 / sum exp(x_j - x_i) is least if x_i is least and all others are largest. It is
    computed as exp(x_i - max x) / sum, or times the reciprocal of the sum."""
    axis = _only_axis(axis)
    count, parts = x.lo.shape[axis], _exponentials(rounding, x, axis)
    span = np.max(x.hi, axis=axis, keepdims=True) - np.min(x.lo, axis=axis, keepdims=True)
    slop = 2.0**-49 * count * (np.abs(span) + count + 4)
    lo = _shares(x.lo, x.hi, axis) * (1 - slop)
    hi = _shares(x.hi, x.lo, axis) * (1 + slop)
    d = up(np.expm1(up(2 * parts.moved + parts.off + parts.each) + 3 * rounding.unit))
    d = np.where(np.isnan(d), np.inf, d)
    bad, undefined = _any_along(x, axis)
    part = Enclosed(lo, hi, d, np.full(lo.shape, rounding.normal), bad, undefined)
    found = rounded(rounding, part, above=True)
    return Enclosed(
        np.clip(found.lo, 0, 1), np.clip(found.hi, 0, 1), found.d, found.a, found.bad, undefined
    )


def _shares(own: Bounds, others: Bounds, axis: int) -> Bounds:
    """1 / (1 + sum over the others of exp(x_j - x_i))."""
    return np.exp(_log_shares(own, others, axis))


def _log_shares(own: Bounds, others: Bounds, axis: int) -> Bounds:
    """The logarithm of `_shares`, also for shares that float64 cannot represent."""
    size = own.shape[axis]
    own, others = np.moveaxis(own, axis, -1), np.moveaxis(others, axis, -1)
    apart = others[..., None, :] - own[..., :, None]
    apart[..., np.arange(size), np.arange(size)] = 0.0
    return np.moveaxis(-np.logaddexp.reduce(apart, axis=-1), -1, axis)


def _any_along(x: Enclosed, axis: int) -> tuple[Any, Any]:
    bad = np.broadcast_to(np.any(x.bad, axis=axis, keepdims=True), x.bad.shape)
    undefined = np.broadcast_to(np.any(x.undefined, axis=axis, keepdims=True), x.bad.shape)
    return bad, undefined


@rule("logsumexp")
def _logsumexp(
    rounding: Rounding, x: Enclosed, *, axis: Any = None, keepdims: bool = False
) -> Enclosed:
    """max x + the log of a sum from 1 to n, by library functions. Errors of the inputs move it by
    the largest of them."""
    flat, kept = in_lines(x, axis)
    count, parts = flat.lo.shape[-1], _exponentials(rounding, flat, -1, 1.0)
    lo, hi = (np.logaddexp.reduce(part, axis=-1) for part in (flat.lo, flat.hi))
    slop = 2.0**-48 * count * (np.maximum(np.abs(lo), np.abs(hi)) + count)
    a = up(parts.moved + _of_log(rounding, parts))[..., 0]
    bad, undefined = np.any(flat.bad, axis=-1), np.any(flat.undefined, axis=-1)
    value = Enclosed(lo - slop, hi + slop, np.zeros(lo.shape), a, bad, undefined)
    found = rounded(rounding, value)
    return found.map(lambda part: part.reshape(kept)) if keepdims else found


def _of_log(rounding: Rounding, parts: _Exponentials) -> Bounds:
    """The error of the logarithm of the sum."""
    return parts.off + rounding.library * (np.log1p(parts.rest) + parts.off)


def in_lines(x: Enclosed, axis: Any) -> tuple[Enclosed, tuple[int, ...]]:
    """x with the axes merged into one, the last; and the shape of x with these axes of length 1."""
    axes = axes_of(axis, x.lo.ndim)

    def last(part: Any) -> Any:
        moved = np.moveaxis(part, axes, range(-len(axes), 0))
        return moved.reshape(*moved.shape[: part.ndim - len(axes)], -1)

    return x.map(last), tuple(1 if i in axes else n for i, n in enumerate(x.lo.shape))


@rule("log_softmax")
def _log_softmax(rounding: Rounding, x: Enclosed, *, axis: Any = -1) -> Enclosed:
    """-log sum exp(x_j - x_i), computed as (x_i - max x) - log(sum), where both parts are at most
    0."""
    axis = _only_axis(axis)
    count, parts = x.lo.shape[axis], _exponentials(rounding, x, axis)
    lo, hi = _log_shares(x.lo, x.hi, axis), _log_shares(x.hi, x.lo, axis)
    span = np.max(x.hi, axis=axis, keepdims=True) - np.min(x.lo, axis=axis, keepdims=True)
    slop = 2.0**-46 * count * (1 + count + np.abs(span))
    a = up(2 * parts.moved + _of_log(rounding, parts)) + rounding.library_least
    d = np.full(lo.shape, rounding.unit)
    bad, undefined = _any_along(x, axis)
    a = np.broadcast_to(a, lo.shape)
    found = rounded(rounding, Enclosed(lo - slop, hi + slop, d, a, bad, undefined))
    return Enclosed(found.lo, np.minimum(found.hi, 0.0), found.d, found.a, found.bad, undefined)


@rule("soft_nll")
def _soft_nll(rounding: Rounding, x: Enclosed, q: Enclosed, *, axis: int) -> Enclosed:
    """-sum(q log(softmax(x))), by its parts."""
    terms = multiply(rounding, q, _log_softmax(rounding, x, axis=axis))
    return negative(rounding, accumulated(rounding, terms, axis, False))


def no_rule(name: str) -> Exceeds:
    """The exception for a program that contains an operation without a rule."""
    return Exceeds(f"`{name}` has no enclosure rule")


@rule("norm")
def _norm(
    rounding: Rounding, x: Enclosed, *, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Enclosed:
    """The root of the sum of squares; for other orders, the sum or the extreme of absolute values,
    or a root of a sum of powers."""
    size = RULES["abs"](rounding, x)
    if ord is not None and ord in (np.inf, -np.inf):
        return RULES["max" if ord > 0 else "min"](rounding, size, axis=axis, keepdims=keepdims)
    if ord == 1:
        return accumulated(rounding, size, axis, keepdims)
    if ord in (None, 2, "fro"):
        whole = accumulated(rounding, multiply(rounding, x, x), axis, keepdims)
        return sqrt(rounding, whole, not_below_0=True)
    if isinstance(ord, str) or ord < 1:
        raise no_rule(f"norm of order {ord}")
    power, root = (literals(rounding, np.asarray(float(p))) for p in (ord, 1 / ord))
    whole = accumulated(rounding, RULES["power"](rounding, size, power), axis, keepdims)
    return RULES["power"](rounding, whole, root)


@rule("var")
def _var(
    rounding: Rounding,
    x: Enclosed,
    *,
    axis: Any = None,
    correction: Any = 0,
    keepdims: bool = False,
) -> Enclosed:
    """The mean of squared distances from the mean, in two passes, or in one that updates the mean
    (Welford). The error is below 8 n u max|x| span + 8 n u v (Chan, Golub, LeVeque 1983, with a
    factor of 4), plus r^2 for an error r of the mean, which equal numbers have, too. mean(x^2) -
    mean(x)^2 would lose more, but no engine computes it."""
    axes = axes_of(axis, x.lo.ndim)
    count = math.prod(x.lo.shape[i] for i in axes)
    if count <= correction:
        raise no_rule("var of too few numbers")
    spread = count / (count - correction)

    def over(function: Any, part: Any) -> Any:
        return function(part, axis=axes, keepdims=keepdims)

    e = over(np.max, np.where(x.bad, np.inf, x.error))
    span = over(np.max, x.hi) - over(np.min, x.lo)
    most = over(np.max, x.most)
    hi = spread * span * span / 4
    apart = np.maximum(over(np.max, x.lo) - over(np.min, x.hi), 0.0)
    lo = spread * apart * apart / (2 * count)
    wide = span + 2 * e
    own = 8 * (count + 2) * rounding.unit
    r = own * (most + e)
    a = up(spread * (4 * e * wide + r * wide + r * r + count * rounding.least))
    # neither the sum of the numbers nor that of the squares may overflow
    total, squares = up(count * (most + e)), up(count * (wide + 2 * r) ** 2)
    beyond = ~((total * (1 + own) <= rounding.largest) & (squares <= rounding.largest))
    bad, undefined = over(np.any, x.bad) | beyond, over(np.any, x.undefined)
    d = np.full(np.shape(lo), own)
    return rounded(rounding, Enclosed(lo, hi, d, a, bad, undefined), above=True)


@rule("centered")
def _centered(rounding: Rounding, x: Enclosed, *, axis: Any = None) -> Enclosed:
    """x - mean(x), minus its own mean, which is 0 except for rounding."""
    first = subtract(rounding, x, _mean(rounding, x, axis=axis, keepdims=True))
    rest = _mean(rounding, first, axis=axis, keepdims=True)
    nothing = np.zeros(rest.lo.shape)
    return subtract(rounding, first, replace(rest, lo=nothing, hi=nothing))


@rule("std")
def _std(rounding: Rounding, x: Enclosed, **keywords: Any) -> Enclosed:
    return sqrt(rounding, _var(rounding, x, **keywords))

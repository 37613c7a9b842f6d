"""The rules of rows that sort numbers, and of rows that move numbers by an order (see `rules`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.search.enclosures.array_rules import accumulated, as_enclosed, in_lines, no_rule
from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Flags,
    Places,
    Rounding,
    exact,
    unrounded,
    up,
)
from gradcheck_cli.search.enclosures.rules import add, multiply, rule
from reference_engine.traced import ROWS


def _order(rounding: Rounding, x: Enclosed, axis: int, descending: bool) -> Places:
    """The elements that may stand at each place of the sorted array: all that are not certainly at
    another place. Any of several equal elements may be first."""
    x = x.map(lambda part: np.moveaxis(part, axis, -1))
    count = x.lo.shape[-1]
    e = np.where(x.bad, np.inf, x.error)
    e = np.where((e > 0) & rounding.flush, e + rounding.normal, e)
    ends = np.where(e == 0, x.lo, x.lo - e), np.where(e == 0, x.hi, x.hi + e)
    low, high = np.nan_to_num(ends[0], nan=-np.inf), np.nan_to_num(ends[1], nan=np.inf)
    other = ~np.eye(count, dtype=np.bool_)
    settled = (low[..., :, None] > high[..., None, :]) | (high[..., :, None] < low[..., None, :])
    still = (e[..., :, None] == 0) & (e[..., None, :] == 0)
    agree = np.all(settled | still | ~other, axis=(-2, -1))
    found = [_possible(x.lo, x.hi), _possible(low, high)]
    if descending:
        found = [flags[..., ::-1, :] for flags in found]
    at = axis % x.lo.ndim
    may, computed = (np.moveaxis(flags, -2, at) for flags in found)
    rows = agree, np.any(x.bad, axis=-1)
    agree, bad = (np.broadcast_to(np.expand_dims(row, at), may.shape[:-1]) for row in rows)
    return Places(may, computed, agree, bad, at, np.ones(x.lo.shape, np.bool_))


def _possible(lo: Bounds, hi: Bounds) -> Flags:
    """Mark the elements of the last axis that may stand at each place in ascending order; the axis
    of places is before the last."""
    count = lo.shape[-1]
    first = np.sum(hi[..., None, :] < lo[..., :, None], axis=-1)  # certainly smaller ones
    last = count - 1 - np.sum(lo[..., None, :] > hi[..., :, None], axis=-1)
    places = np.arange(count)[:, None]
    return np.asarray((first[..., None, :] <= places) & (places <= last[..., None, :]))


@rule("argsort")
def _argsort(
    rounding: Rounding, x: Enclosed, *, axis: int = -1, descending: bool = False
) -> Places:
    return _order(rounding, x, axis, descending)


@rule("topk_indices")
def _topk_indices(
    rounding: Rounding, x: Enclosed, *, k: int, axis: int = -1, largest: bool = True
) -> Places:
    whole = _order(rounding, x, axis, largest)
    at = axis % x.lo.ndim
    before = (slice(None),) * at
    first, rest = (*before, slice(k)), (*before, slice(k, None))
    sure = ~np.any(whole.may[rest] | whole.computed[rest], axis=at)
    parts = whole.may, whole.computed, whole.agree, whole.bad
    may, computed, agree, bad = (part[first] for part in parts)
    return Places(may, computed, agree, bad, at, sure)


@rule("sort")
def sorted_along(
    rounding: Rounding, x: Enclosed, *, axis: int = -1, descending: bool = False
) -> Enclosed:
    """The largest error of all elements bounds the error of each sorted element, because sorting
    keeps order. A relative error must be below 1 for this."""
    lo, hi = np.sort(x.lo, axis=axis), np.sort(x.hi, axis=axis)
    small = np.all(x.d < 1, axis=axis, keepdims=True)
    d = np.max(x.d, axis=axis, keepdims=True)
    a = np.max(np.where(small, x.a, x.error), axis=axis, keepdims=True)
    bad, undefined = (np.any(f, axis=axis, keepdims=True) for f in (x.bad, x.undefined))
    found = unrounded(lo, hi, np.where(small, d, 0.0), up(a), bad, undefined)
    return found.map(lambda part: np.flip(part, axis)) if descending else found


@rule("topk_values")
def _topk_values(
    rounding: Rounding, x: Enclosed, *, k: int, axis: int = -1, largest: bool = True
) -> Enclosed:
    first = (slice(None),) * (axis % x.lo.ndim) + (slice(k),)
    return sorted_along(rounding, x, axis=axis, descending=largest).map(lambda part: part[first])


@rule("median")
def _median(
    rounding: Rounding, x: Enclosed, *, axis: Any = None, keepdims: bool = False
) -> Enclosed:
    flat, kept = in_lines(x, axis)
    ordered = sorted_along(rounding, flat)
    count = flat.lo.shape[-1]
    lower, upper = (
        ordered.map(lambda part, i=i: part[..., i]) for i in ((count - 1) // 2, count // 2)
    )
    if count % 2 == 0:
        half = exact(np.asarray(0.5))
        parts = (multiply(rounding, half, one) for one in (lower, upper))
        lower = add(rounding, *parts)
    return lower.map(lambda part: part.reshape(kept)) if keepdims else lower


# What is moved by an order.


def _chosen(
    lo: Bounds, hi: Bounds, x: Enclosed, places: Places, axis: int, may: Flags, computed: Flags
) -> Enclosed:
    """One of the elements x along the last axis (`may`: in exact arithmetic, `computed`: on the
    engine), or an exact number from `lo` to `hi`."""

    def least(flags: Flags) -> Bounds:
        return np.asarray(np.minimum(np.min(np.where(flags, x.lo, np.inf), axis=-1), lo))

    def most(flags: Flags) -> Bounds:
        return np.asarray(np.maximum(np.max(np.where(flags, x.hi, -np.inf), axis=-1), hi))

    wrong = most(may | computed) - least(may | computed)
    e = np.max(np.where(computed, x.error, 0.0), axis=-1)
    d, a = (np.max(np.where(computed, part, 0.0), axis=-1) for part in (x.d, x.a))
    agree = np.broadcast_to(np.all(places.agree, axis=axis, keepdims=True), e.shape)
    a = np.where(agree, a, up(wrong + e))
    lost = np.any(places.bad, axis=axis, keepdims=True)
    bad = np.any(computed & x.bad, axis=-1) | ~(agree | np.isfinite(wrong)) | lost
    several = np.count_nonzero(may, axis=-1) > 1
    undefined = np.any(may & x.undefined, axis=-1) | several  # a jump, where two are equal
    a = np.nan_to_num(a, nan=np.inf, posinf=np.inf)
    return unrounded(least(may), most(may), np.where(agree, d, 0.0), a, bad, undefined)


@rule("take_along_axis")
def _take_along_axis(rounding: Rounding, x: Any, places: Any, *, axis: int = -1) -> Any:
    x = as_enclosed(x)
    if not isinstance(places, Places):
        take = ROWS["take_along_axis"].raw
        return x.map(lambda part: take(part, np.asarray(places), axis=axis))
    axis %= len(places.shape)
    if x.lo.shape[axis] != places.may.shape[-1]:
        raise no_rule("take_along_axis by the order of fewer elements")
    beside = x.map(lambda part: np.expand_dims(np.moveaxis(part, axis, -1), axis))
    nothing = np.full(1, np.inf)
    return _chosen(nothing, -nothing, beside, places, axis, places.may, places.computed)


@rule("scatter_add")
def _scatter_add(
    rounding: Rounding, x: Any, places: Any, updates: Any, *, axis: int = -1
) -> Enclosed:
    """If the places depend on numbers, each place must have one update at most, and x must be 0."""
    x, updates = as_enclosed(x), as_enclosed(updates)
    axis %= x.lo.ndim
    if not isinstance(places, Places):
        return _added(rounding, x, np.asarray(places), updates, axis)
    alone = places.shape[axis] == 1 or places.along == axis
    if not alone or np.any(x.most) or np.any(x.error) or x.lo.shape[axis] != places.may.shape[-1]:
        raise no_rule("scatter_add to places that depend on numbers")
    # the last axis has the places of each element along `axis`
    may, computed = (
        np.moveaxis(np.moveaxis(flags, axis, -1), -2, axis)
        for flags in (places.may, places.computed)
    )
    spread = updates.map(lambda part: np.expand_dims(np.moveaxis(part, axis, -1), axis))
    without = np.ones(may.shape[:-1], np.bool_)
    if places.along == axis and places.sure is not None:
        without = ~np.moveaxis(places.sure, -1, axis)
    lo, hi = np.where(without, 0.0, np.inf), np.where(without, 0.0, -np.inf)
    found = _chosen(lo, hi, spread, places, axis, may, computed)
    return replace(found, undefined=found.undefined | without)


def _added(rounding: Rounding, x: Enclosed, places: Any, updates: Enclosed, axis: int) -> Enclosed:
    """x plus the sum of the updates of each place."""
    size = x.lo.shape[axis]
    at = np.moveaxis(np.broadcast_to(places, updates.lo.shape), axis, -1) % size
    hits = np.arange(size)[:, None] == at[..., None, :]

    def own(part: Any) -> Any:
        spread = np.expand_dims(np.moveaxis(part, axis, -1), -2)
        return np.where(hits, spread, np.zeros((), spread.dtype))

    terms = updates.map(own)
    first = x.map(lambda part: np.moveaxis(part, axis, -1)[..., None])
    pairs = zip(first.parts, terms.parts, strict=True)
    every = Enclosed(*(np.concatenate(pair, axis=-1) for pair in pairs))
    return accumulated(rounding, every, -1, False).map(lambda part: np.moveaxis(part, -1, axis))

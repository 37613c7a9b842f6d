"""Kinks of a layer that show along no axis, found by differences beside the point, where the tie is
broken.

At a tie of three or more numbers, as in a median, every partial derivative may exist and yet say
nothing about the function. If there is a kink along an axis, too, its two sides need not be all
limits of the gradient. For entries where a gradient contradicts the differences, slopes are taken a
short way from the point in random directions. Slopes that stay apart as this way becomes shorter
are limits of the gradient, and their hull is Clarke's generalised gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.thresholds import CORNER_ALIKE, CORNER_BENDS, Step
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.blocks import Differences, Merged
from gradcheck_cli.truth.numerics.differences import moved_entry
from gradcheck_cli.truth.numerics.noise import typical

SAMPLES = 24
AT_TIES = 16 * SAMPLES  # of all columns together, where slopes nearby show a tie
ALONG = 3  # points beside a direction, along which nearly every tie breaks
MOST = 32  # columns at most: an error in more of them is not a tie of a few numbers
AWAY: Step = 2.0**-12  # part of its size by which each number moves
NEARER: Step = 2.0**-4  # times that for the second look
STEP: Step = 2.0**-10  # part of the way to that point: few steps cross another tie


def cornered(
    merged: Merged,
    gradient: Array,
    found: Differences,
    several: Callable[[Sequence[Values]], Array],
    values: Values,
    at: tuple[str, Sequence[int]],
    seed: int,
) -> Merged:
    """The block (m, n) `at` a leaf and flat places (n,) in it, with entries at a tie turned into
    kinks. These are smooth entries
    (m, n) with several limits that contradict the `gradient`, or share an output with one that
    does. A kink lies between its limits, or is unbounded if some limit was met only once. The
    limits also widen the bounds of a kink that the gradient contradicts. `several` gives the
    outputs (k, m) at several inputs."""
    name, flat = at
    off, kinks = _contradicted(merged, gradient, found)
    columns = np.flatnonzero(np.any(off, axis=0))
    if not 0 < len(columns) <= MOST:
        return merged
    rng = generator(seed, 43)
    places = np.asarray(flat)[columns]

    def sampled(count: int) -> tuple[Array, Array]:
        ways = [_direction(values, rng) for _ in range(count)]
        near, far = (
            np.stack([_slopes(several, values, way, size, name, places) for way in ways])
            for size in (AWAY * NEARER, AWAY)
        )
        return near, far

    axis, rough = found.value[:, columns], np.zeros(off.shape, np.bool_)
    near, far = sampled(SAMPLES)
    more = AT_TIES // len(columns) - SAMPLES
    if more > 0 and has_corner(several, values, seed):
        near, far = map(np.concatenate, zip((near, far), sampled(more), strict=True))
    largest = np.max(np.abs(near), axis=(0, 2), initial=0.0)[:, None]
    rough[:, columns], stays = _are_corners(near, far, axis), _stays(near, far, axis)
    rough &= off
    if not np.any(rough):
        return merged
    lower, upper = merged.lower.copy(), merged.upper.copy()
    for row, column in np.argwhere(rough):
        place = int(np.searchsorted(columns, column))
        own = (lower, upper) if kinks[row, column] else (found.value, found.value)
        met_there = near[stays[:, row, place], row, place]
        limits = [*met_there, *(side[row, column] for side in own)]
        met = _all_met_twice(met_there, CORNER_ALIKE * float(largest[row, 0]))
        lower[row, column], upper[row, column] = (
            (np.min(limits), np.max(limits)) if met or kinks[row, column] else (-np.inf, np.inf)
        )
    slack = CORNER_ALIKE * np.broadcast_to(largest, off.shape)
    return merged.at(
        rough, error=slack, kind=PointKind.KINK, lower=lower, upper=upper, confirmed=False
    )


def has_corner(several: Callable[[Sequence[Values]], Array], values: Values, seed: int) -> bool:
    """Whether ties break beside the point along a random direction. Takes 14 runs."""
    along = _direction(values, generator(seed, 53))
    slope = _slopes_along(several, values, [{}], AWAY, along)[0]
    return is_corner_along(several, values, along, slope, seed)


def is_corner_along(
    several: Callable[[Sequence[Values]], Array],
    values: Values,
    direction: Values,
    slope: Array,
    seed: int,
) -> bool:
    """Whether the slopes (m,) of outputs along a direction, an array for each leaf, are not all
    limits of slopes nearby: some of these stay apart from one as the way from the point becomes
    shorter."""
    rng = generator(seed, 47)
    ways = [_direction(values, rng) for _ in range(ALONG)]
    near, far = (
        _slopes_along(several, values, ways, size, direction)[:, :, None]
        for size in (AWAY * NEARER, AWAY)
    )
    return bool(np.any(_are_corners(near, far, slope[:, None])))


def _slopes_along(
    several: Callable[[Sequence[Values]], Array],
    values: Values,
    ways: Sequence[Values],
    size: float,
    direction: Values,
) -> Array:
    """Central differences (k, m) along a direction at the ends of k ways of this size."""
    step = size * STEP
    ends = [
        {
            name: x + size * way.get(name, 0.0) + sign * step * direction.get(name, 0.0)
            for name, x in values.items()
        }
        for way in ways
        for sign in (1, -1)
    ]
    found = several(ends)
    return np.asarray((found[0::2] - found[1::2]) / (2 * step))


def _are_corners(near: Array, far: Array, axis: Array) -> Array:
    """Mark the entries (m, c) of which slopes `near` the point and not so near, (k, m, c), stay
    apart from the slope at the point. A step that crosses another tie has a slope between those of
    its sides; one that crosses a jump has none of that size."""
    stays = _stays(near, far, axis)
    low = np.min(np.where(stays, near, axis), axis=0)
    high = np.max(np.where(stays, near, axis), axis=0)
    largest = np.max(np.abs(near), axis=(0, 2), initial=0.0)[:, None]
    differ = np.abs(near - axis) > CORNER_ALIKE * largest
    slack = CORNER_ALIKE * np.fmax(np.abs(low), np.abs(high))
    between = [(low - slack <= one) & (one <= high + slack) for one in (near, far)]
    settled = stays | ~differ | (between[0] & between[1])
    return np.asarray(np.any(differ & stays, axis=0) & np.all(settled, axis=0))


def _stays(near: Array, far: Array, axis: Array) -> Array:
    """Mark the samples (k, m, c) that are as far from the slope at the point on a shorter way."""
    apart = np.fmax(np.abs(near - axis), np.abs(far - axis))
    return np.asarray(np.abs(near - far) <= CORNER_BENDS * apart)


def _contradicted(merged: Merged, gradient: Array, found: Differences) -> tuple[Array, Array]:
    """The entries to look at, and which of them are kinks already."""
    apart = np.abs(gradient - found.value) > found.error
    outside = np.fmax(merged.lower - gradient, gradient - merged.upper) > merged.error
    kinks = (merged.kind == PointKind.KINK) & outside
    smooth = (merged.kind == PointKind.SMOOTH) & np.isfinite(gradient)
    off = smooth & ~merged.confirmed & apart | kinks & np.isfinite(gradient)
    tied = off | smooth & np.any(off, axis=1)[:, None]  # a right entry may belong to the same tie
    few = np.count_nonzero(np.any(tied, axis=0)) <= MOST
    return (tied if few else off), kinks


def _direction(values: Values, rng: np.random.Generator) -> dict[str, Array]:
    """A random move of every floating number by about its own size; a zero by the size of its
    neighbours."""
    return {
        name: rng.normal(size=value.shape) * np.where(value == 0, typical(value), np.abs(value))
        for name, value in values.items()
        if value.dtype.kind == "f"
    }


def _slopes(
    several: Callable[[Sequence[Values]], Array],
    values: Values,
    way: Values,
    size: float,
    name: str,
    columns: npt.NDArray[np.int64],
) -> Array:
    """Central differences (m, columns) at the end of a way of this size."""
    there = {**values, **{n: values[n] + size * d for n, d in way.items()}}
    start = there[name].reshape(-1)
    steps = size * STEP * np.fmax(np.abs(start), typical(start))[columns]
    found = several(
        [
            {**there, name: moved_entry(there[name], column, h)}
            for column, step in zip(columns, steps, strict=True)
            for h in (step, -step)
        ]
    )
    return np.asarray((found[0::2] - found[1::2]) / (2 * steps[:, None])).T


def _all_met_twice(limits: Array, alike: float) -> bool:
    """Check whether every limit was met at least twice (as in `limiting`)."""
    ordered = np.sort(limits)
    groups = np.split(ordered, np.flatnonzero(np.diff(ordered) > alike) + 1)
    return all(len(group) > 1 and group[-1] - group[0] <= 2 * alike for group in groups)

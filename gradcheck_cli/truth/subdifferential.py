"""Directions through a kink of several entries, and the one-sided derivatives along them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.thresholds import CORNER_ALIKE, SAME_LIMIT_BITS, Step
from gradcheck_cli.domain.truth import Hull, PointKind, TruthBlock
from gradcheck_cli.truth.blocks import Differences
from gradcheck_cli.truth.certified.limiting import Limiting, all_met_twice
from gradcheck_cli.truth.numerics.classify import Sides
from gradcheck_cli.truth.numerics.directions import Sampled

PIECES = 16  # points around a tie: one of three pieces is missed by all of them once in 700 ties
AWAY: Step = 2.0**-12  # part of the numbers by which these points are away
STEP: Step = 2.0**-20  # short compared with that
RANDOM_DIRECTIONS = 5  # besides the one that moves every tied entry together


def hulls_of(
    blocks: Mapping[str, TruthBlock],
    differences: Mapping[str, Differences],
    sampled: Sampled,
    seed: int,
    limits: Limiting | None = None,
) -> tuple[Hull, ...]:
    """Return hulls along all tied entries at once and along seeded random signs of them.

    The one-sided derivatives bound <g, d> if the function bends the same way in every direction,
    like a maximum or a norm. (There the generalised directional derivative is the one-sided one;
    Clarke 1983, proposition 2.3.6.) The functions relu(x) - relu(y) and median do not, and
    median(x) + max(x) - sort(x)[3] does not although it bends up along every axis. There the
    `limits` of the gradient bound <g, d> if each value was met twice; other rows are left
    unbounded.
    """
    tied = {name: np.any(block.kind == PointKind.KINK, axis=0) for name, block in blocks.items()}
    rng = generator(seed, 2)
    directions = [{name: mask.astype(np.float64) for name, mask in tied.items()}]
    for _ in range(RANDOM_DIRECTIONS):
        directions.append({name: mask * signs(rng, mask.size) for name, mask in tied.items()})
    along = [_sides(direction, sampled) for direction in directions]
    bends = [_bend(sides)[:, None] for sides in along]
    bends += [_bend(differences[n]) * (b.kind == PointKind.KINK) for n, b in blocks.items()]
    bend = np.concatenate(bends, axis=1)
    one_way = np.all(bend >= 0, axis=1) | np.all(bend <= 0, axis=1)
    one_way &= np.any(bend != 0, axis=1)  # a kink without a visible bend has no known sign
    hulls = [_hull(d, sides) for d, sides in zip(directions, along, strict=True)]
    if limits is None:
        return tuple(_bounded(hull, one_way) for hull in hulls)
    for hull in hulls:
        one_way &= _holds(hull, limits)
    return tuple(_bounded_by_limits(_bounded(hull, one_way), limits) for hull in hulls)


def steady(
    tied: Mapping[str, Array],
    steepest: Mapping[str, Array],
    values: Mapping[str, Array],
    several: Callable[[Sequence[Mapping[str, Array]]], Array],
    size: float,
    seed: int,
) -> Hull:
    """The slope along all `tied` entries at once, by input (columns,), of a function that is known
    only by its values.

    A row is bounded if its slope is the same at the point, on both sides, and at points all around,
    which lie in other pieces. Then every limit of the gradient has this slope, and so has every
    generalised gradient. Other rows are left unbounded. `steepest` has the size of each entry
    (rows, columns), `several` returns the values at points; steps are parts of `size`.
    """
    rng = generator(seed, 3)
    direction = {name: mask.astype(np.float64) for name, mask in tied.items()}

    def moved(draws: Mapping[str, Array], step: float) -> dict[str, Array]:
        return {
            name: value
            + size * np.reshape(AWAY * draws[name] + step * direction[name], value.shape)
            if name in direction
            else value
            for name, value in values.items()
        }

    none = {name: np.zeros(mask.size) for name, mask in tied.items()}
    around = [
        {name: mask * rng.uniform(-1, 1, mask.size) for name, mask in tied.items()}
        for _ in range(PIECES)
    ]
    points = [moved(draws, step) for draws in around for step in (STEP, -STEP)]
    points += [moved(none, step) for step in (STEP, -STEP, 0.0)]
    found = several(points)
    slopes = (found[: 2 * PIECES : 2] - found[1 : 2 * PIECES : 2]) / (2 * STEP * size)
    above, below = (found[-3] - found[-1], found[-1] - found[-2])
    slopes = np.stack([*slopes, above / (STEP * size), below / (STEP * size)])
    lower, upper = np.min(slopes, axis=0), np.max(slopes, axis=0)
    slack = CORNER_ALIKE * sum(steepest[name] @ direction[name] for name in tied)
    same = upper - lower <= slack
    return Hull(
        direction=direction,
        lower=np.where(same, lower, -np.inf),
        upper=np.where(same, upper, np.inf),
        error=np.where(same, slack, np.inf),
    )


def _bounded_by_limits(hull: Hull, limits: Limiting) -> Hull:
    """The hull bounded by the limits of the gradient, in rows where all <g, d> were met."""
    along, size = _along(hull, limits)
    met = [all_met_twice(*row) for row in zip(along.T, size, strict=True)]
    known = limits.rows & np.array(met, np.bool_)
    return replace(
        hull,
        lower=np.where(known, np.min(along, axis=0), hull.lower),
        upper=np.where(known, np.max(along, axis=0), hull.upper),
        error=np.where(known, 2.0**-SAME_LIMIT_BITS * size, hull.error),
    )


def _holds(hull: Hull, limits: Limiting) -> Array:
    """Mark the rows whose bounds hold for every limit of the gradient that was met."""
    along, size = _along(hull, limits)
    slack = hull.error + 2.0**-SAME_LIMIT_BITS * size
    outside = (along < hull.lower - slack) | (along > hull.upper + slack)
    return np.asarray(~np.any(outside, axis=0))


def _along(hull: Hull, limits: Limiting) -> tuple[Array, Array]:
    """<g, d> for each limit of the gradient, (samples, rows), and the largest sum of the sizes of
    its terms, (rows,)."""
    pairs = [(limits.gradients[name], weights) for name, weights in hull.direction.items()]
    along = np.sum([gradients @ weights for gradients, weights in pairs], axis=0)
    sizes = np.sum([np.abs(gradients) @ np.abs(weights) for gradients, weights in pairs], axis=0)
    return along, np.max(sizes, axis=0)


def _sides(direction: Mapping[str, Array], sampled: Sampled) -> Sides:
    shaped = {
        name: np.reshape(weights, np.shape(sampled.values[name]))
        for name, weights in direction.items()
    }
    return sampled.along(shaped).sides


def _bend(sides: Sides | Differences) -> Array:
    """+1 where the slope grows from below to above (convex), -1 where it falls, 0 within the error
    bars. An unknown slope does not bend."""
    if isinstance(sides, Differences):
        above, below, error = sides.above, sides.below, 2 * sides.side_error
    else:
        above, below = sides.above.value, sides.below.value
        error = sides.above.error + sides.below.error
    return np.where(np.abs(above - below) > error, np.sign(above - below), 0.0)


def _hull(direction: Mapping[str, Array], sides: Sides) -> Hull:
    above, below = sides.above, sides.below
    return Hull(
        direction=direction,
        lower=np.fmin(above.value, below.value),
        upper=np.fmax(above.value, below.value),
        error=np.fmax(above.error, below.error),
    )


def _bounded(hull: Hull, rows: Array) -> Hull:
    """The hull with its bounds in these rows alone."""
    return replace(
        hull, lower=np.where(rows, hull.lower, -np.inf), upper=np.where(rows, hull.upper, np.inf)
    )

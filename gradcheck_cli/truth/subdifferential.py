"""Directions through a kink of several entries, and the one-sided derivatives along them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.thresholds import SAME_LIMIT_BITS
from gradcheck_cli.domain.truth import Hull, PointKind, TruthBlock
from gradcheck_cli.truth.blocks import Differences
from gradcheck_cli.truth.certified.limiting import Limiting
from gradcheck_cli.truth.numerics.classify import Sides
from gradcheck_cli.truth.numerics.directions import Sampled

RANDOM_DIRECTIONS = 5  # beside the one that moves every tied entry together


def hulls_of(
    blocks: Mapping[str, TruthBlock],
    differences: Mapping[str, Differences],
    sampled: Sampled,
    seed: int,
    limits: Limiting | None = None,
) -> tuple[Hull, ...]:
    """Hulls along all tied entries at once and along seeded random signs of them.

    The one-sided derivatives bound <g, d> where the function bends the same way in every direction,
    like a maximum or a norm (Clarke 1983, proposition 2.3.6: there its generalised directional
    derivative is the one-sided one). relu(x) - relu(y) and the median do not: there the `limits` of
    the gradient bound it, where all of them are known, and other rows are left unbounded.
    """
    tied = {name: np.any(block.kind == PointKind.KINK, axis=0) for name, block in blocks.items()}
    rng = np.random.default_rng([seed, 2])
    directions = [{name: mask.astype(np.float64) for name, mask in tied.items()}]
    for _ in range(RANDOM_DIRECTIONS):
        directions.append({name: mask * signs(rng, mask.size) for name, mask in tied.items()})
    along = [_sides(direction, sampled) for direction in directions]
    bends = [_bend(sides)[:, None] for sides in along]
    bends += [_bend(differences[n]) * (b.kind == PointKind.KINK) for n, b in blocks.items()]
    bend = np.concatenate(bends, axis=1)
    one_way = np.all(bend >= 0, axis=1) | np.all(bend <= 0, axis=1)
    one_way &= np.any(bend != 0, axis=1)  # a kink that shows in no direction bends in none
    hulls = (_hull(d, sides) for d, sides in zip(directions, along, strict=True))
    bounded = (_bounded(hull, one_way) for hull in hulls)
    return tuple(bounded if limits is None else (_limited(hull, limits) for hull in bounded))


def _limited(hull: Hull, limits: Limiting) -> Hull:
    """The hull between the limits of the gradient, in the rows of which all limits are known."""
    names = hull.direction.keys()
    along = sum(limits.gradients[name] @ hull.direction[name] for name in names)
    size = sum(np.abs(limits.gradients[name]) @ np.abs(hull.direction[name]) for name in names)
    known = limits.complete
    return replace(
        hull,
        lower=np.where(known, np.min(along, axis=0), hull.lower),
        upper=np.where(known, np.max(along, axis=0), hull.upper),
        error=np.where(known, 2.0**-SAME_LIMIT_BITS * np.max(size, axis=0), hull.error),
    )


def _sides(direction: Mapping[str, Array], sampled: Sampled) -> Sides:
    shaped = {
        name: np.reshape(weights, np.shape(sampled.values[name]))
        for name, weights in direction.items()
    }
    return sampled.along(shaped).sides


def _bend(sides: Sides | Differences) -> Array:
    """+1 where the slope grows from below to above (convex), -1 where it falls, 0 within the error
    bars; an unknown slope bends neither way."""
    if isinstance(sides, Differences):
        above, below, error = sides.above, sides.below, 2 * sides.side_error
    else:
        above, below = sides.above.value, sides.below.value
        error = sides.above.error + sides.below.error
    with np.errstate(all="ignore"):
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
    """The hull without its bounds but in these rows."""
    return replace(
        hull,
        lower=np.where(rows, hull.lower, -np.inf),
        upper=np.where(rows, hull.upper, np.inf),
    )

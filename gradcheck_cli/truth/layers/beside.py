"""Points that a narrow dtype hardly tells from the own one, and which slopes a layer has there.
Beside a kink, rounding takes a run to another slope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK, ROUNDINGS, Step
from gradcheck_cli.truth.layers.callables import perturbed_leaf
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.layers.safe_values import values_of
from gradcheck_cli.truth.numerics.differences import Float

# Half ulps. Sums of thousands of float32 products are off by 3.5 times what half an ulp of the
# inputs does (MKL, 2236 and 7071 terms), so smaller moves seldom cross the kink that a run did.
FAR: Step = FIRST_ORDER_SLACK * ROUNDINGS
# Of several kinks nearby, long moves always cross all, in one direction or the other; short ones
# cross some. Where two numbers meet, every second draw shows it.
TIMES: tuple[Step, ...] = (FAR, FAR, FAR, FAR, 1.0, 1.0)
SMALL = 2  # times smaller than the largest leaf: a leaf that is moved at little cost
NEARBY: Step = 2.0**-8  # of half an ulp: a step that seldom meets the kink that a move crossed
SURER = 4  # times nearer to a difference: one derivative is confirmed, and not the other

Slope = TypeVar("Slope")
Point = Callable[[], dict[str, Array]]
"""Makes the values of leaves that have moved; they may be as large as the layer."""


class Pair(NamedTuple):
    """Two opposite points, at `times` half an ulp."""

    times: Step
    there: Point
    back: Point


class Visit(NamedTuple, Generic[Slope]):
    """The slope at a point, at `times` half an ulp, and at the opposite one if it is known."""

    times: Step
    point: Point
    slope: Slope
    opposite: Slope | None


def points_beside(leaves: Iterable[Leaf], dtype: str, seed: int) -> Iterator[Pair]:
    """Opposite points, at which a few ulps of the dtype, which is narrower than that of the leaves,
    have moved some of these: each number up or down at random, or at last all away from 0 and all
    towards it. Every second draw moves small leaves alone: the sums that a kink is about mostly
    contain them, and large ones take time and memory."""
    moving = [leaf for leaf in leaves if leaf.differentiable]
    largest = max((leaf.size for leaf in moving), default=0)
    small = [leaf for leaf in moving if SMALL * leaf.size <= largest]
    unit = FORMATS[dtype].unit_roundoff

    def at_random(draw: int, part: float) -> dict[str, Array]:
        rng = generator(seed, 61, draw)
        chosen = (draw % 2 == 0 and small) or moving
        return {leaf.name: perturbed_leaf(leaf, part, rng) for leaf in chosen}

    def scaled(part: float) -> dict[str, Array]:
        return {leaf.name: leaf.inside(leaf.value * (1 + part)) for leaf in moving}

    for draw, times in enumerate(TIMES):
        part = times * unit
        yield Pair(times, partial(at_random, draw, part), partial(at_random, draw, -part))
    yield Pair(1.0, partial(scaled, unit), partial(scaled, -unit))


def visits(pairs: Iterable[Pair], slope_at: Callable[[Point], Slope]) -> Iterator[Visit[Slope]]:
    """The slopes at points beside the own one: each point first, and then each pair."""
    for times, there, back in pairs:
        at_there = slope_at(there)
        yield Visit(times, there, at_there, None)
        at_back = slope_at(back)
        yield Visit(times, there, at_there, at_back)
        yield Visit(times, back, at_back, at_there)


def cost_beside(here: Float, there: Float, opposite: Float | None, times: Step) -> Float:
    """How far rounding may take slopes (c,) from the own point, given those `there` and at the
    `opposite` point, at `times` half an ulp. Beside a kink, as far as they are apart. What smooth
    slopes change grows with the distance, and has the other sign at the opposite point; ROUNDINGS
    half ulps of it count, and of all while the opposite point is unknown."""
    change, bent = there - here, False
    if opposite is not None:
        least = np.linalg.norm(change) / FIRST_ORDER_SLACK
        bent = bool(np.linalg.norm(change + (opposite - here)) > least)
    return np.asarray(np.abs(change) * (1.0 if bent else min(1.0, ROUNDINGS / times)))


def is_confirmed(
    truth: Projections,
    dtype: str,
    near: Values,
    along: Mapping[str, Array],
    rows: Array,
    stated: Float,
    known: Float,
) -> Array:
    """A mask of the rows (r, m) for which the layer at `near`, a point of `points_beside` for this
    dtype, has the derivative (r,) along a direction, by leaf, that its backward has `stated` there.
    If the layer has tangents, they must agree with it. If not, its differences must agree with it,
    and not with `known`, the derivative at the point itself. A wrong backward, too, may return
    something else next door."""
    subject = truth.subject
    if truth.tangents is not None:
        slope = rows @ truth.tangents.at(near, along)
        sizes = np.fmax(np.abs(slope), np.abs(stated))
        return np.asarray(np.abs(slope - stated) <= FORMATS[subject.dtype].half * sizes)
    part = NEARBY * FORMATS[dtype].unit_roundoff
    at = {**{leaf.name: leaf.value for leaf in truth.leaves if leaf.name in along}, **near}

    def value(way: float) -> Array:  # one after the other, because points may be large
        moved = {n: at[n] + way * part * one.reshape(at[n].shape) for n, one in along.items()}
        return np.asarray(values_of(subject, [{**near, **moved}], rows.shape[1])[0])

    there, back = value(1), value(-1)
    slope = rows @ (there - back) / (2 * part)
    sizes = np.abs(there) + np.abs(back)
    # of many outputs, the roundings add up as random numbers do
    size = np.minimum(np.abs(rows) @ sizes, ROUNDINGS * np.sqrt(rows**2 @ sizes**2))
    noise = FORMATS[subject.dtype].unit_roundoff * size / (2 * part)
    apart = SURER * (np.abs(slope - stated) + noise)
    return np.asarray(apart < np.abs(slope - known))

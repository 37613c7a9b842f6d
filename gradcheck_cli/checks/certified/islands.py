"""Differentiate islands, the operations of a lifted layer without a row, by finite differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import OPERATIONS, TAIL, Step
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.layer.lifting import Island, Lifted
from gradcheck_cli.truth.certified.ties import disjoint
from gradcheck_cli.truth.numerics.differences import FIRST_STEP, Float, climb, second
from gradcheck_cli.truth.numerics.directions import Sampled
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer, typical

X = "x"  # the only input of an island, as a function
MOST_DIRECTIONS = 256  # of an island's second differences; each takes about thirty runs
AWAY: tuple[Step, ...] = (0.0, 0.11)  # relative moves of all numbers of an island

Radii = Values
"""For the name of each constant of the program, a bound on its error."""


@dataclass(frozen=True, slots=True)
class Differenced:
    """A program with the derivatives of its islands as constants, and their radii: `radii` for
    first derivatives of the program, `radii_of_second` for second ones."""

    lifted: Lifted
    radii: Radii
    radii_of_second: Radii


def with_islands(lifted: Lifted, again: bool = False) -> Differenced:
    """The program with the Jacobian of each island, and with its second derivatives if the program
    is differentiated `again`. Raises NotLifted for an island that has no input, is on a kink,
    changes the shape of its result nearby, or whose differences have no finite error bar."""
    constants = dict(lifted.constants)
    radii: dict[str, Array] = {}
    of_second: dict[str, Array] = {}
    for island in lifted.islands:
        sampled = _sampled(island, constants[island.value])
        constants[island.jacobian], radii[island.jacobian] = _jacobian(island, sampled)
        radii[island.value] = sampled.noise
        if again:
            bends = constants[island.bends]
            constants[island.bends], of_second[island.bends] = (
                _bends(island, sampled)
                if bends.ndim == 2
                else (bends, np.full(bends.shape, np.inf))
            )
    found = replace(lifted, constants=constants)
    return Differenced(found, radii, {**radii, **of_second})


def _sampled(island: Island, value: Float) -> Sampled:
    """The island as a function, with the rounding noise of its value (m,)."""

    def function(at: Values) -> Float:
        result = island.call(at[X])
        if result.shape != value.shape:  # as `unique` does, if two inputs were equal
            raise island.refusal
        return result

    if not island.at.size:
        raise island.refusal
    noise, _ = measured_of_layer(function, {X: island.at}, value, exact=False, dtype="float64")
    noise = np.fmax(2 * noise, from_size(value, OPERATIONS))

    def noise_of(at: Values, y: Float) -> Float:
        return noise + from_size(y - value, OPERATIONS)

    return Sampled(function, {X: island.at}, {}, noise, value, noise_of)


def _jacobian(island: Island, sampled: Sampled) -> tuple[Array, Array]:
    """The Jacobian (m, n) and its error bars."""
    slopes = [sampled.along_entry(X, flat) for flat in range(island.at.size)]
    kinds = np.stack([slope.sides.kind for slope in slopes])
    bars = np.stack([slope.estimate.error for slope in slopes], axis=1)
    if np.any(kinds != PointKind.SMOOTH) or not np.all(np.isfinite(bars)):
        raise island.refusal
    return np.stack([slope.estimate.value for slope in slopes], axis=1), bars


def _bends(island: Island, sampled: Sampled) -> tuple[Array, Array]:
    """The second derivatives (m * n, n) and their error bars, infinite where differences say
    nothing or there would be too many of them.

    b_ij is half of the second difference along i + j minus those along i and along j. One direction
    covers several entries, or pairs of entries, if no output depends on two of them. An output that
    an entry does not change is known only to within its rounding, which may hide a tail.
    """
    n, m = island.at.size, sampled.zero.size
    sizes = np.where(island.at == 0, typical(island.at), np.abs(island.at))
    depends = _depends(sampled, sizes)
    pairs = [(i, j) for i, j in combinations(range(n), 2) if np.any(depends[:, i] & depends[:, j])]
    pairs = [*((i, i) for i in range(n)), *pairs]
    groups = disjoint(np.stack([np.any(depends[:, pair], axis=1) for pair in pairs]))
    if len(groups) > MOST_DIRECTIONS:
        return np.zeros((m * n, n)), np.full((m * n, n), np.inf)
    value = np.zeros((m, n, n))
    unseen = TAIL * sampled.noise / (FIRST_STEP / 2) ** 2  # of outputs that no step changes
    bar = np.broadcast_to(unseen[:, None, None], value.shape).copy()
    for numbers in groups:  # groups of single entries come first
        group = [pairs[number] for number in numbers]
        moved = np.isin(np.arange(n), group)
        found, error = _second_difference(sampled, np.where(moved, sizes, 0.0))
        for i, j in group:
            rows = depends[:, i] & depends[:, j]
            both, bars = found[rows], error[rows]
            if i != j:
                both = (both - value[rows, i, i] - value[rows, j, j]) / 2
                bars = (bars + bar[rows, i, i] + bar[rows, j, j]) / 2
            value[rows, i, j] = value[rows, j, i] = both
            bar[rows, i, j] = bar[rows, j, i] = bars
    scale = sizes[:, None] * sizes
    value, bar = np.where(np.isfinite(bar), value, 0.0) / scale, bar / scale
    return value.reshape(m * n, n), bar.reshape(m * n, n)


def _depends(sampled: Sampled, sizes: Array) -> Array:
    """A mask (m, n) of the outputs that change when one number moves, either from the given point
    or after all numbers have moved."""
    at = np.asarray(sampled.values[X])
    depends = np.zeros((sampled.zero.size, at.size), np.bool_)
    for part in AWAY:
        there = at + part * sizes
        value = sampled.function({X: there})
        for i in range(at.size):
            moved = there.copy()
            moved[i] += AWAY[1] * sizes[i]
            depends[:, i] |= sampled.function({X: moved}) != value
    return depends


def _second_difference(sampled: Sampled, direction: Array) -> tuple[Float, Float]:
    """The second derivative (m,) along a direction, and its error bar."""
    at = np.asarray(sampled.values[X])
    found = second(climb(sampled.line(lambda step: {X: at + step * direction}, 1.0))[0])
    return found.value, found.error

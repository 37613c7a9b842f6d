"""Operations of a lifted layer that no row states: their derivatives by differences, with bars."""

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
MOST_DIRECTIONS = 256  # of second differences of an island, each of which takes some thirty runs
AWAY: tuple[Step, ...] = (0.0, 0.11)  # parts of themselves that all numbers of an island move by

Radii = Values
"""By name, how far constants of the program may be off."""


@dataclass(frozen=True, slots=True)
class Differenced:
    """A program with the derivatives of its islands, and the radii of these: `radii` in what first
    derivatives take, `radii_of_second` in what second ones do."""

    lifted: Lifted
    radii: Radii
    radii_of_second: Radii


def with_islands(lifted: Lifted, again: bool = False) -> Differenced:
    """The program with the Jacobian of each island, and with its second derivative where the
    program is differentiated `again`.
    Raises NotLifted for an island without an input, on a kink, with another number of results
    nearby, or where no difference says anything."""
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
    """The island as a function, with the rounding of its value (m,)."""

    def function(at: Values) -> Float:
        result = island.call(at[X])
        if result.shape != value.shape:  # as of `unique`, where two of its inputs were equal
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
    """The Jacobian (m, n), and its bars."""
    with np.errstate(all="ignore"):
        slopes = [sampled.along_entry(X, flat) for flat in range(island.at.size)]
    kinds = np.stack([slope.sides.kind for slope in slopes])
    bars = np.stack([slope.estimate.error for slope in slopes], axis=1)
    if np.any(kinds != PointKind.SMOOTH) or not np.all(np.isfinite(bars)):
        raise island.refusal
    return np.stack([slope.estimate.value for slope in slopes], axis=1), bars


def _bends(island: Island, sampled: Sampled) -> tuple[Array, Array]:
    """The second derivatives (m * n, n), and their bars: inf where no difference says anything, or
    it would take too many.

    b_ij is half of what the second difference along i and j has beyond those along each. One
    direction stands for several entries, or pairs of them, that no output depends on at once. An
    output that an entry does not change is known to within its rounding alone: that may hide a
    tail."""
    n, m = island.at.size, sampled.zero.size
    sizes = np.where(island.at == 0, typical(island.at), np.abs(island.at))
    depends = _depends(sampled, sizes)
    pairs = [(i, j) for i, j in combinations(range(n), 2) if np.any(depends[:, i] & depends[:, j])]
    pairs = [*((i, i) for i in range(n)), *pairs]
    groups = disjoint(np.stack([np.any(depends[:, pair], axis=1) for pair in pairs]))
    if len(groups) > MOST_DIRECTIONS:
        return np.zeros((m * n, n)), np.full((m * n, n), np.inf)
    value = np.zeros((m, n, n))
    unseen = TAIL * sampled.noise / (FIRST_STEP / 2) ** 2  # of what no step changes
    bar = np.broadcast_to(unseen[:, None, None], value.shape).copy()
    for numbers in groups:  # those of single entries are first
        group = [pairs[number] for number in numbers]
        moved = np.isin(np.arange(n), group)
        with np.errstate(all="ignore"):
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
    """Which of the outputs take another value, (m, n), when one number moves: where the others are,
    or where all have moved."""
    at = np.asarray(sampled.values[X])
    found = np.zeros((sampled.zero.size, at.size), np.bool_)
    for part in AWAY:
        there = at + part * sizes
        value = sampled.function({X: there})
        for i in range(at.size):
            moved = there.copy()
            moved[i] += AWAY[1] * sizes[i]
            found[:, i] |= sampled.function({X: moved}) != value
    return found


def _second_difference(sampled: Sampled, direction: Array) -> tuple[Float, Float]:
    """The second derivative (m,) along a direction, and its bar."""
    at = np.asarray(sampled.values[X])

    def moved(step: float) -> Values:
        return {X: at + step * direction}

    def noise_at(step: float) -> Float:
        return np.fmax(*(sampled.noise_of(moved(t), value(t)) for t in (step, -step)))

    def value(step: float) -> Float:
        return sampled.function(moved(step))

    ladder, _ = climb(value, 1.0, sampled.noise, -np.inf, np.inf, sampled.zero, 0.0, noise_at)
    found = second(ladder)
    return found.value, found.error

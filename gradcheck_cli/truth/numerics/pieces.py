"""Decide whether steps along a direction cross a kink that passes through the point, even if the
function has no kink at the point itself, like max(x^2, y^2) at 0. A framework combines second
derivatives from all pieces around the point, and a difference may have met only one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.domain.thresholds import LOUD_KINK, OPERATIONS, Spread, Step
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Sampled
from gradcheck_cli.truth.numerics.noise import from_size

PAIRS = 3  # of points around; one pair distinguishes two pieces of equal entries
# Entries of a displacement differ by up to two to this power: pieces are wedges.
LENGTHS: Spread = 4.0
BEYOND: Step = 2.0  # times the longest displacement: steps from there reach the pieces around
# Ratio of two distances: the step of a kink stays the same, the change of a smooth function
# shrinks by this ratio, and rounding that is divided by the distance grows by it.
CLOSER: Step = 16.0


class Crossings:
    """The second derivatives that cross a kink of the gradient, which `sampled` computes with these
    rows for every input. If the gradient jumps along an input, because the value has a kink there,
    not even a first derivative exists. Jumps are looked for only if rows are `entries`, because
    there are few. `digits` is the dtype in which the gradient is computed."""

    def __init__(
        self, sampled: Sampled, rows: Mapping[str, slice], entries: bool, digits: str
    ) -> None:
        self._sampled, self._digits, self._entries = sampled, digits, entries
        self._rows = rows
        self._crossed: dict[tuple[str, bytes], Array] = {}
        self._jumped: dict[str, Array] = {}

    def of_block(self, first: str, second: str, directions: Array, tied: Array) -> Array:
        """Mark the `tied` entries (rows, k) of d(gradient by first)/d(second along k directions)
        that cross a kink."""
        found = np.zeros_like(tied)
        for k in np.flatnonzero(np.any(tied, axis=0)):
            free = self._rows_crossing(second, directions[k])[self._rows[first]]
            if np.any(tied[:, k] & ~free):
                moved = np.ravel(directions[k]) != 0
                free = free | self._jumps(first) | np.any(self._jumps(second) & moved)
            found[:, k] = tied[:, k] & free
        return found

    def _rows_crossing(self, name: str, direction: Array) -> Array:
        """Mark the rows of all inputs that cross a kink."""
        key = name, direction.tobytes()
        if key not in self._crossed:
            along = {name: np.reshape(direction, np.shape(self._sampled.values[name]))}
            self._crossed[key] = crosses_kinks(self._sampled, along, [*self._rows], self._digits)
        return self._crossed[key]

    def _jumps(self, name: str) -> Array:
        """Mark the entries of an input along which their own derivative jumps."""
        if not self._entries:
            return np.zeros(1, np.bool_)
        if name not in self._jumped:
            found = jumps(self._sampled, name, self._digits)[self._rows[name]]
            self._jumped[name] = np.diagonal(found)
        return self._jumped[name]


def crosses_kinks(
    sampled: Sampled, along: Mapping[str, Array], names: Sequence[str], digits: str
) -> npt.NDArray[np.bool_]:
    """Mark the outputs (m,) with a kink that passes through the point and that steps `along` a
    direction cross. Their derivatives along any direction differ between the ends and the middle of
    lines around the point, however near the lines are. Steps along y do not cross the kink of |x| y
    at x = 0; steps along x do. `names` are the inputs to move, `digits` is the dtype in which the
    function computes.

    The distance of the lines leaves room for the step of a central difference between rounding,
    u^(1/2) of the inputs' size, and the pieces, u^(1/3).
    """
    unit = FORMATS[digits].unit_roundoff
    # zeros of all inputs move alike: most ties are there
    scales = {name: _scales(sampled.values[name]) for name in names}
    length = max(float(np.max(np.abs(w) / scales[name])) for name, w in along.items())
    line = {name: w / length for name, w in along.items()}
    step = float(np.sqrt(unit))
    looks = [_slopes(sampled, line, scales, d, step) for d in _distances(unit)]
    return _stays([np.ptp(slopes, axis=1) for slopes, _ in looks], looks[0][1], digits, step)


def jumps(sampled: Sampled, name: str, digits: str) -> npt.NDArray[np.bool_]:
    """Mark the outputs that jump along an entry of an input (n,): shape (m, n)."""
    value = np.asarray(sampled.values[name], np.float64)
    found = []
    for unit, scale in zip(np.eye(value.size), np.ravel(_scales(value)), strict=True):
        apart, size = [], np.abs(sampled.zero)
        for distance in _distances(FORMATS[digits].unit_roundoff):
            away = distance * scale * unit.reshape(value.shape)
            up, down = (
                sampled.function({**sampled.values, name: value + sign * away})
                for sign in (1.0, -1.0)
            )
            apart.append(np.abs(up - down)[None])
            size = np.fmax(size, np.fmax(np.abs(up), np.abs(down)))
        found.append(_stays(apart, size, digits))
    return np.stack(found, axis=1)


def _scales(value: Array) -> Array:
    return np.where(value == 0, 1.0, tangent_scale(value))


def _distances(unit: float) -> tuple[float, float]:
    return float(np.cbrt(unit)), float(np.cbrt(unit)) / CLOSER


def _stays(
    looks: Sequence[Array], size: Float, digits: str, step: float = 1.0
) -> npt.NDArray[np.bool_]:
    """Check whether the largest gap (k, m), at a long and a short distance, neither shrinks with
    the distance nor grows with its inverse, and exceeds the rounding of values of this `size` (m,)
    over a `step`. An infinite gap counts. If only a few lines grow, a step has met a jump, and
    these lines are ignored; rounding grows on most lines."""
    lines = [np.where(np.isfinite(look), look, np.inf) for look in looks]
    grown = lines[1] >= np.max(lines[0], axis=0) * np.sqrt(CLOSER)
    met = grown & np.isfinite(lines[1]) & (2 * np.sum(grown, axis=0) < len(grown))
    far, near = (np.max(np.where(met, 0.0, look), axis=0) for look in lines)
    usual = np.sqrt(np.mean(np.square(size[np.isfinite(size)]))) if np.any(size) else 0.0
    noise = from_size(np.fmax(size, usual), OPERATIONS, digits) / step
    kept = (near > far / np.sqrt(CLOSER)) & (near < far * np.sqrt(CLOSER))
    return np.asarray(np.isinf(near) | (kept & (near > LOUD_KINK * noise)))


def _slopes(
    sampled: Sampled,
    line: Mapping[str, Array],
    scales: Mapping[str, Array],
    distance: float,
    step: float,
) -> tuple[Array, Float]:
    """The derivatives at both ends and in the middle of lines, (lines, 3, m), and the largest size
    of the values, (m,)."""
    rng = generator(0, 37)
    values = sampled.values
    shapes = {name: np.shape(values[name]) for name in scales}

    def moved(at: Values, by: float, direction: Mapping[str, Array]) -> Values:
        return {**at, **{name: at[name] + by * w for name, w in direction.items()}}

    found, size = [], np.zeros(sampled.zero.size)
    for _ in range(PAIRS):
        turns = {name: scales[name] * signs(rng, shape) for name, shape in shapes.items()}
        lengths = {name: rng.uniform(-LENGTHS, 0.0, shape) for name, shape in shapes.items()}
        tangent = {name: scales[name] * signs(rng, shape) for name, shape in shapes.items()}
        # a displacement sees one of two pieces, and the one with inverse lengths sees the other
        for bits in (lengths, {name: -LENGTHS - bits for name, bits in lengths.items()}):
            away = {name: turns[name] * np.exp2(bits[name]) for name in scales}
            middle = moved(values, distance, away)
            slopes = []
            for end in (-BEYOND, 0.0, BEYOND):
                there = moved(middle, end * distance, line)
                up, down = (
                    sampled.function(moved(there, sign * step, tangent)) for sign in (1.0, -1.0)
                )
                slopes.append((up - down) / (2 * step))
                size = np.fmax(size, np.fmax(np.abs(up), np.abs(down)))
            found.append(slopes)
    return np.array(found), size

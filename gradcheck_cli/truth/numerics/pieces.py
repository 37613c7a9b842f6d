"""Whether steps along a direction cross a kink that meets the point, though the point may see none
of it: x sees none of max(x^2, y^2) at 0. A framework puts second derivatives together from all
pieces around, and a difference has met one of them."""

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

PAIRS = 3  # of points around; one tells two pieces of alike entries apart
LENGTHS: Spread = (
    4.0  # entries of a displacement are apart by up to two to this power: pieces are wedges
)
BEYOND: Step = 2.0  # times the longest displacement: steps from there reach the pieces around
# Times: the step of a kink stays; what a smooth function changes by shrinks as much, and what a
# division by the distance leaves of rounding grows.
CLOSER: Step = 16.0


class Crossings:
    """Of second derivatives, those that cross a kink of the gradient, which is `sampled` with these
    rows of every input. By an input along which the gradient jumps, as the value has a kink there,
    there is not even a first derivative: jumps are looked for where rows are `entries`, of which
    there are few. `digits` is the dtype that the gradient is computed in."""

    def __init__(
        self, sampled: Sampled, rows: Mapping[str, slice], entries: bool, digits: str
    ) -> None:
        self._sampled, self._digits, self._entries = sampled, digits, entries
        self._rows = rows
        self._crossed: dict[tuple[str, bytes], Array] = {}
        self._jumped: dict[str, Array] = {}

    def of_block(self, first: str, second: str, directions: Array, tied: Array) -> Array:
        """The `tied` entries (rows, k) of d(gradient by first)/d(second along k directions) that
        cross one."""
        found = np.zeros_like(tied)
        for k in np.flatnonzero(np.any(tied, axis=0)):
            free = self._along(second, directions[k])[self._rows[first]]
            if np.any(tied[:, k] & ~free):
                moved = np.ravel(directions[k]) != 0
                free = free | self._jumps(first) | np.any(self._jumps(second) & moved)
            found[:, k] = tied[:, k] & free
        return found

    def _along(self, name: str, direction: Array) -> Array:
        """The rows of all inputs that cross a kink."""
        key = name, direction.tobytes()
        if key not in self._crossed:
            along = {name: np.reshape(direction, np.shape(self._sampled.values[name]))}
            self._crossed[key] = crosses_kinks(self._sampled, along, [*self._rows], self._digits)
        return self._crossed[key]

    def _jumps(self, name: str) -> Array:
        """The entries of an input along which their own derivative jumps."""
        if not self._entries:
            return np.zeros(1, np.bool_)
        if name not in self._jumped:
            found = jumps(self._sampled, name, self._digits)[self._rows[name]]
            self._jumped[name] = np.diagonal(found)
        return self._jumped[name]


def crosses_kinks(
    sampled: Sampled, along: Mapping[str, Array], names: Sequence[str], digits: str
) -> npt.NDArray[np.bool_]:
    """Which outputs (m,) have a kink that meets the point and that steps `along` a direction cross:
    their derivatives, along any direction, are not the same at both ends and in the middle of lines
    around the point, however near these are. y crosses none of |x| y at x = 0, and x does. `names`
    are the inputs that are moved, `digits` the dtype that the function computes in.

    The lines are as far away as leaves room for the step of a central difference between rounding,
    u^(1/2) of the inputs' size, and the pieces, u^(1/3).
    """
    unit = FORMATS[digits].unit_roundoff
    # what is 0 moves alike in all inputs: there most ties are
    scales = {name: _scales(sampled.values[name]) for name in names}
    length = max(float(np.max(np.abs(w) / scales[name])) for name, w in along.items())
    line = {name: w / length for name, w in along.items()}
    step = float(np.sqrt(unit))
    looks = [_slopes(sampled, line, scales, d, step) for d in _distances(unit)]
    return _stays([np.ptp(slopes, axis=1) for slopes, _ in looks], looks[0][1], digits, step)


def jumps(sampled: Sampled, name: str, digits: str) -> npt.NDArray[np.bool_]:
    """Which outputs (m,) jump along an entry of an input (n,), (m, n)."""
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
            with np.errstate(all="ignore"):
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
    """Whether the largest of what is apart (k, m), far off and near, does not shrink with the
    distance, nor grow with its inverse, and is more than rounding of values of this `size` (m,)
    over a `step`. What is not finite is apart. Of few lines that alone grow, a step has met a jump:
    they say nothing, whereas rounding grows on most."""
    lines = [np.where(np.isfinite(look), look, np.inf) for look in looks]
    grown = lines[1] >= np.max(lines[0], axis=0) * np.sqrt(CLOSER)
    met = grown & np.isfinite(lines[1]) & (2 * np.sum(grown, axis=0) < len(grown))
    far, near = (np.max(np.where(met, 0.0, look), axis=0) for look in lines)
    usual = np.sqrt(np.mean(np.square(size[np.isfinite(size)]))) if np.any(size) else 0.0
    noise = from_size(np.fmax(size, usual), OPERATIONS, digits) / step
    with np.errstate(all="ignore"):
        kept = (near > far / np.sqrt(CLOSER)) & (near < far * np.sqrt(CLOSER))
    return np.asarray(np.isinf(near) | (kept & (near > LOUD_KINK * noise)))


def _slopes(
    sampled: Sampled,
    line: Mapping[str, Array],
    scales: Mapping[str, Array],
    distance: float,
    step: float,
) -> tuple[Array, Float]:
    """Derivatives at both ends and in the middle of lines, (lines, 3, m), and how large the values
    are, at most (m,)."""
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
        # of two pieces one is seen by a displacement, the other by that of the inverse lengths
        for bits in (lengths, {name: -LENGTHS - bits for name, bits in lengths.items()}):
            away = {name: turns[name] * np.exp2(bits[name]) for name in scales}
            middle = moved(values, distance, away)
            slopes = []
            for end in (-BEYOND, 0.0, BEYOND):
                there = moved(middle, end * distance, line)
                up, down = (
                    sampled.function(moved(there, sign * step, tangent)) for sign in (1.0, -1.0)
                )
                with np.errstate(all="ignore"):
                    slopes.append((up - down) / (2 * step))
                    size = np.fmax(size, np.fmax(np.abs(up), np.abs(down)))
            found.append(slopes)
    return np.array(found), size

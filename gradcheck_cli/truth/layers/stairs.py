"""Stairs: a value that is a straight line beside the point and jumps repeatedly a short way off.

The result of a search (bisection, golden section, an iteration that stops at a tolerance) depends
on its inputs through comparisons. The derivative of the program that ran is the slope of one stair,
which is flat or moves with the bracket; it is not the derivative of the number that was searched
for. If the stairs are short compared with the input, one stair is a rounding that the layer makes
itself. Differences over longer steps, and the curve that the stairs follow, then show the intended
derivative, as precisely as the height of the stairs permits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import CHOICES, FINE_STAIRS, OPERATIONS, STAIR_BENDS, Step
from gradcheck_cli.truth.numerics.differences import Estimate, moved_entry
from gradcheck_cli.truth.numerics.noise import from_size

POINTS = 49  # on a stretch: three or more on each stair
FEWEST = 4  # jumps on a stretch of stairs: one or two kinks are not stairs
SHORTEST: Step = 8.0  # times the distance to the first jump, which may be near by chance
LONGER = 4  # times the stretch before: between four and sixteen stairs are seen on a stretch
STRETCHES = 12
FITTED = 4  # stretches that are fitted, from the first one with stairs
HALVINGS = 12
OFF: Step = 0.38197  # part of a stretch below the point, so that points and stairs are not in step
STEPS = np.divide(np.arange(POINTS), POINTS - 1) - OFF


@dataclass(frozen=True, slots=True)
class Stairs:
    """Stairs along an entry: the height of the highest, (m,), 0 for outputs without stairs; the
    part of the entry within which several were seen; and the slope of the curve that they
    follow."""

    heights: Array
    part: float
    slope: Estimate

    @property
    def height(self) -> float:
        return float(np.max(self.heights))


def searches(program: Program, moving: Collection[str]) -> bool:
    """Check whether a program makes as many choices in a row as a search does, each depending on
    the one before. Choices are comparisons and signs of values that depend on inputs that are
    `moving`. Successive roundings, as of eight-bit numbers, do not count."""
    moved = {program.inputs[name] for name in moving if name in program.inputs}
    in_a_row: dict[int, int] = {}  # choices before each node that moves
    for index, node in enumerate(program.nodes):
        before = [in_a_row[arg] for arg in node.args if arg in in_a_row]
        if index not in moved and not before:
            continue
        chooses = node.op == "sign"
        if node.kind != "float":
            chooses = any(program.nodes[arg].kind == "float" for arg in node.args)
        in_a_row[index] = max(before, default=0) + chooses
    return max(in_a_row.values(), default=0) >= CHOICES


def stairs_along(
    several: Callable[[Sequence[Values]], Array],
    values: Values,
    name: str,
    column: int,
    reach: float,
    longest: float = FINE_STAIRS,
) -> Stairs | None:
    """The stairs in which the outputs of `several` rise while one entry of the input `name` moves
    by at most the part `longest` of itself; None if there are none. No output jumps within
    `reach`."""
    start = np.asarray(values[name], np.float64)
    size = abs(float(start.reshape(-1)[column])) or 1.0

    def at(steps: Sequence[float] | Array) -> Array:
        moved = [{**values, name: moved_entry(start, column, float(step))} for step in steps]
        return np.asarray(several(moved))

    lengths = SHORTEST * reach * float(LONGER) ** np.arange(STRETCHES)
    lengths = lengths[lengths <= longest * size]
    for stretch, length in enumerate(lengths):
        rows = at(length * STEPS)
        heights = _heights(rows)
        if np.any(heights):
            row = int(np.argmax(heights))
            if not _stays(at, length * STEPS, rows[:, row], row):
                return None
            further = lengths[stretch + 1 : stretch + FITTED]
            fits = [_fitted(length, rows), *(_fitted(one, at(one * STEPS)) for one in further)]
            narrowest = np.argmin([fit.error for fit in fits], axis=0)
            value = np.choose(narrowest, [fit.value for fit in fits])
            error = np.choose(narrowest, [fit.error for fit in fits])
            return Stairs(heights, length / size, Estimate(value, error))
    return None


def _fitted(length: float, rows: Array) -> Estimate:
    """The slope (m,) at the point of the parabola that fits the values (points, m) on a stretch
    best. The error bar is twice the slope that a curve within the largest residual can have; it is
    infinite if a value is not finite."""
    powers = np.vander(STEPS, 3, increasing=True)
    weights = np.linalg.pinv(powers)
    curve = weights @ rows
    distance = np.max(np.abs(rows - powers @ curve), axis=0)
    error = 2 * np.sum(np.abs(weights[1])) * distance / length
    known = np.all(np.isfinite(rows), axis=0)
    return Estimate(np.where(known, curve[1] / length, 0.0), np.where(known, error, np.inf))


def _stays(at: Callable[[Sequence[float]], Array], steps: Array, values: Array, row: int) -> bool:
    """Check whether the largest change of an output between two steps stays as large between closer
    steps. It does at a jump; it shrinks on a ramp and grows at a pole."""
    k = int(np.argmax(np.abs(np.diff(values))))
    low, high = (float(steps[k]), values[k]), (float(steps[k + 1]), values[k + 1])
    first = abs(high[1] - low[1])
    for _ in range(HALVINGS):
        middle = (low[0] + high[0]) / 2
        value = at([middle])[0, row]
        if abs(value - low[1]) > abs(high[1] - value):
            high = middle, value
        else:
            low = middle, value
    return bool(first / 2 <= abs(high[1] - low[1]) <= 2 * first)


def _heights(rows: Array) -> Array:
    """The highest stair (m,) among values (points, m); 0 if they are not straight lines with jumps
    between them. A jump gives two second differences of its height with opposite signs; those of a
    kink have one sign, and those of a bending function resemble their neighbours."""
    bends = np.diff(rows, 2, axis=0)
    highest = np.max(np.abs(bends), axis=0)
    rough = np.abs(bends) > STAIR_BENDS * highest
    pairs = bends[:-1] + bends[1:]
    jumps = rough[:-1] & rough[1:] & (np.abs(pairs) <= np.abs(bends[:-1]) / 2)
    seen = highest > from_size(np.max(np.abs(rows), axis=0), OPERATIONS)
    count = np.count_nonzero(jumps, axis=0)
    lines = 2 * np.count_nonzero(rough, axis=0) <= len(bends)
    return np.where(seen & lines & (count >= FEWEST), highest, 0.0)


def words_of_stairs(stairs: Mapping[tuple[str, int], Stairs]) -> Iterator[str]:
    """Yield a sentence about entries of leaves along which values rise in stairs."""
    if stairs:
        highest = max(one.height for one in stairs.values())
        names = ", ".join(dict.fromkeys(f"`{name}`" for name, _ in stairs))
        yield (
            f"near the point, values rise in stairs of {highest:.1g} along "
            f"{names}, like the result of a search: differences over longer steps decide"
        )

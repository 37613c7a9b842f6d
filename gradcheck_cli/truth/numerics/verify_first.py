"""Directional differences of a function with an expected derivative: a few steps if they confirm
it, more steps only if they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.thresholds import BENDING, Enough
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.numerics.classify import Sides, classify
from gradcheck_cli.truth.numerics.differences import (
    DEEPEST,
    FIRST_STEP,
    Estimate,
    Float,
    Ladder,
    Line,
    central,
    exact_steps,
)
from gradcheck_cli.truth.numerics.directions import Sampled, Slope, steepest_of

FIRST_LEVEL = 3  # the first step is an eighth of `climb`'s: four levels from there reach rounding
LEVELS = 4  # at once: truncation O(h^8), so 1e-14 if the function bends on the scale of its inputs
FEWER = 3  # of these, without the longest: O(h^6), mostly enough for bars of RELATIVE
RELATIVE: Enough = 2.0**-30  # a bar below this part of the slope is narrow enough to go on with
# Times noise / smallest step: the noise that all levels leave, without any bending.
FLOOR: Enough = 32.0


@dataclass(slots=True)
class Probe:
    """The result of a few steps: the estimate (k,) with its bars, the kind of the point, and
    whether the expected derivative lies within every bar. `apart`: one-sided quotients stay apart
    as steps shrink, so these steps are too few to tell the kind of the point. `level` is the level
    of the first step, `levels` the number of steps."""

    estimate: Estimate
    sides: Sides
    steepest: Float
    agrees: npt.NDArray[np.bool_]
    apart: bool
    level: int
    levels: int

    @property
    def confirmed(self) -> bool:
        return bool(np.all(self.agrees)) and not self.rough and not self.apart

    @property
    def rough(self) -> bool:
        return bool(np.any(self.sides.kind != PointKind.SMOOTH))


def look(line: Line, expected: Float, level: int, levels: int = LEVELS) -> Probe | None:
    """Take `levels` central differences, from this level of `climb` down; None if there is no
    ladder."""
    ladder = laddered(line, level, levels)
    if ladder is None:
        return None
    estimate = central(ladder)
    agrees = np.abs(estimate.value - expected) <= estimate.error
    apart = bool(np.any(bends(ladder)))
    sides = classify(ladder) if apart else even(estimate)
    return Probe(estimate, sides, steepest_of(ladder), agrees, apart, level, levels)


def laddered(
    line: Line,
    level: int,
    levels: int,
    outputs: Array | slice | None = None,
    noise: Float | None = None,
) -> Ladder | None:
    """The ladder of `levels` steps of both signs, from this level of `climb` down; of these
    `outputs`, whose noise is `noise` (None: all outputs). None if a step leaves the domain or a
    value is not finite."""
    steps = FIRST_STEP * line.scale * np.ldexp(1.0, -np.arange(level, level + levels))
    h = exact_steps(steps, line.base)
    if h[-1] <= 0 or h[0] > min(line.high, -line.low):
        return None
    zero = line.zero
    if outputs is None:
        values = line.at([*h, *-h])
    else:  # of many outputs the values are not kept
        values, zero = line.many([*h, *-h])[:, outputs], zero[outputs]
    if not np.all(np.isfinite(values)):
        return None
    noise = np.broadcast_to(line.noise if noise is None else noise, (levels, zero.size))
    return Ladder(h, values[:levels], values[levels:], noise, zero)


def first_look(line: Line, expected: Float, relative: float, level: int) -> Probe | None:
    """A look at LEVELS steps, without the longest of them if the bars are narrow enough without
    it."""
    found = None
    if relative >= RELATIVE:
        found = look(line, expected, level + LEVELS - FEWER, FEWER)
        if found and np.all(found.estimate.error <= relative * _size(found, expected)):
            return found
    return look(line, expected, level) or found


def long_look(line: Line, expected: Float, relative: float, level: int) -> Probe | None:
    """A look that adds shorter steps, one level at a time, while it is confirmed and they narrow
    its bars, until the bars are `relative` to the slope. If the bars do not become narrow enough, a
    first look."""
    found = look(line, expected, level + LEVELS - FEWER, FEWER)
    while found is not None and found.confirmed:
        bars = found.estimate.error
        if np.all(bars <= relative * _size(found, expected)):
            return found
        longer = look(line, expected, found.level, found.levels + 1)
        if longer is None or not longer.confirmed or not np.any(longer.estimate.error < bars / 2):
            break
        found = longer
    if found is not None and found.confirmed and narrow(found, line, expected, relative):
        return found
    return first_look(line, expected, relative, level)


def bends(ladder: Ladder, least: Float | float = 0.0) -> npt.NDArray[np.bool_]:
    """Mark the outputs (k,) whose one-sided quotients stay apart by more than `least` as steps
    shrink, as at a kink. If there is a second derivative, their distance is in proportion to the
    step."""
    apart = np.abs(ladder.plus - 2 * ladder.zero + ladder.minus) / ladder.h[:, None]
    heard = 8 * ladder.noise[-1] / ladder.h[-1]  # 4 roundings a step, twice that to be sure
    smooth = BENDING * apart[0] * (ladder.h[-1] / ladder.h[0])
    return np.asarray(apart[-1] > np.maximum(np.maximum(smooth, heard), least))


def even(estimate: Estimate) -> Sides:
    """The sides of a smooth point: both have the slope of the whole."""
    smooth = np.full(estimate.value.size, int(PointKind.SMOOTH))
    return Sides(smooth, estimate, estimate, np.zeros(estimate.value.size, dtype=np.bool_))


def narrow(found: Probe, line: Line, expected: Float, relative: float) -> bool:
    """Check whether the bars are narrow enough: compared with the slope, or as narrow as rounding
    permits."""
    last = FIRST_STEP * line.scale * 2.0 ** (1 - found.level - found.levels)
    enough = np.maximum(relative * _size(found, expected), FLOOR * line.noise / last)
    return bool(np.all(found.estimate.error <= enough))


def _size(found: Probe, expected: Float) -> Float:
    """The size of the slope on any step, (k,)."""
    return np.maximum(np.abs(expected), found.steepest)


def descend(line: Line, expected: Float, relative: float, level: int = FIRST_LEVEL) -> Probe | None:
    """Take looks at ever smaller steps until the bars are narrow and contain the expected
    derivative, until two successive looks contradict it and not each other, or until rounding is
    larger than all contradictions. This leaves kinks behind that are near the point but not at it.
    None if no look was possible."""
    last: Probe | None = None
    while level < DEEPEST:
        found = long_look(line, expected, relative, level)
        level += LEVELS
        if found is None:
            continue
        if narrow(found, line, expected, relative):
            if found.confirmed:
                return found
            if last is not None and same_story(last, found):
                return found
            level = found.level + 1  # rounding soon hides a contradiction: halve the steps once
        last = found
        apart = np.abs(found.estimate.value - expected)
        smallest = FIRST_STEP * line.scale * 2.0 ** -(found.level + LEVELS)
        if np.all(line.noise / smallest > np.maximum(apart, found.estimate.error)):
            break
    return last


def same_story(one: Probe, other: Probe) -> bool:
    """Check whether both looks contradict the expected derivative somewhere, and their bars meet
    wherever either does."""
    off = ~(one.agrees & other.agrees)
    gap = np.abs(one.estimate.value - other.estimate.value)
    meet = gap <= one.estimate.error + other.estimate.error
    return bool(np.any(~one.agrees & ~other.agrees) and np.all(meet[off]))


@dataclass(slots=True)
class Quick(Sampled):
    """A `Sampled` that accepts the expected derivative if one look confirms it. `many` returns the
    values at several inputs, (k, m). `measure` returns a better estimate of the noise; it is called
    once, before the first slope that needs it."""

    many: Callable[[Sequence[Values]], Float] = field(kw_only=True)
    measure: Callable[[], Float] = field(kw_only=True)
    measured: bool = field(default=False, kw_only=True)

    def _slope(self, line: Line, moved: Callable[[float], Values], expected: Float | None) -> Slope:
        if expected is not None and np.all(np.isfinite(expected)):
            fast = replace(line, many=lambda steps: self.many([*map(moved, steps)]), known={})
            found = first_look(fast, expected, RELATIVE, FIRST_LEVEL)
            if found and found.confirmed and narrow(found, fast, expected, RELATIVE):
                return Slope(found.estimate, found.sides, found.steepest)
        if not self.measured:
            self.noise = self.measure()
            self.measured = True
        return Sampled._slope(self, replace(line, noise=self.noise), moved, expected)

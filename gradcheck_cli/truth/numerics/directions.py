"""Differences of a function along one entry of one input, or along a whole vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import Enough, Residue, Step
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.numerics.classify import Sides, classify
from gradcheck_cli.truth.numerics.differences import (
    DEEPEST,
    Estimate,
    Float,
    Ladder,
    Line,
    central,
    central_of_levels,
    climb,
    moved_entry,
)
from gradcheck_cli.truth.numerics.noise import POINTS, in_differences, typical

LEFT: Residue = 2.0**-8  # part of the steepest quotient that x^3 at 0 has left after four halvings
CLOSER: Step = 2.0**-DEEPEST  # where the steps from `typical` end

ROUNDS = 8  # of contradictions at most
# Part of a step from the first to the last point where noise is measured: a bend or a jump is that
# near to one step and not to the next one, which is half as long.
AROUND: Step = 0.6
BENT: Enough = 2.0  # times the bend over the longest step, which shrinks with the step's square


@dataclass(slots=True)
class Slope:
    """A derivative along one direction for m outputs. `estimate` is central or, at an edge of the
    domain, one-sided; `sides` has the kind of the point and the one-sided derivatives; `steepest`
    (m,) is the steepest one-sided quotient on any step, the largest size of a derivative of this
    function. `reach` (m,) is the longest step up to which central quotients show this derivative;
    inf if only a few steps were taken."""

    estimate: Estimate
    sides: Sides
    steepest: Float
    reach: Float = field(default_factory=lambda: np.full((), np.inf))


@dataclass(slots=True)
class Sampled:
    """A function of the inputs with m outputs that is differentiated at `values`.

    `noise` (m,) is the rounding error of one of its values there. `noise_of` returns the rounding
    error at other inputs, from these and the value. `bounds` has the domain of each input.
    """

    function: Callable[[Values], Float]
    values: Values
    bounds: Mapping[str, tuple[float, float]]
    noise: Float
    zero: Float
    noise_of: Callable[[Values, Float], Float]

    def along_entry(self, name: str, flat: int, expected: Float | None = None) -> Slope:
        """The derivative along entry `flat` of input `name`, by steps that are exact for the entry.
        If it is not the `expected` one (m,), shorter steps are tried."""
        start = np.asarray(self.values[name], dtype=np.float64)
        base = float(start.reshape(-1)[flat])
        low, high = self.bounds.get(name, (-np.inf, np.inf))

        def moved(step: float) -> Values:
            return {**self.values, name: moved_entry(start, flat, step)}

        if not np.isfinite(base):  # there is nothing next to it
            return _unknown(self.zero.size)
        if base != 0:
            line = self.line(moved, abs(base), low - base, high - base, base)
            return self._slope(line, moved, expected)
        line = self.line(moved, typical(start), low, high)
        slope = self._slope(line, moved, expected)
        if expected is not None and not np.all(_agrees(slope, expected)):
            # beside 0 every step is exact: x / (|x| + 1e-12) is a line up to 1e-12 only
            line = self.line(moved, line.scale * CLOSER, low, high)
            closer = self._slope(line, moved, expected)
            if _vindicates(closer, slope, expected):
                return closer
        return slope

    def along(self, direction: Mapping[str, Array], expected: Float | None = None) -> Slope:
        """The derivative along `direction`, input -> weights of the input's shape. If it is not the
        `expected` one (m,), more steps are tried."""

        # a step moves entries by rounded amounts; the caller includes this in `noise`
        def moved(step: float) -> Values:
            there = {
                name: self.values[name] + step * weights for name, weights in direction.items()
            }
            return {**self.values, **there}

        low, high = room(self.bounds, self.values, direction)
        return self._slope(self.line(moved, self._scale(direction), low, high), moved, expected)

    def line(
        self,
        moved: Callable[[float], Values],
        scale: float,
        low: float = -np.inf,
        high: float = np.inf,
        base: float = 0.0,
    ) -> Line:
        """The function of a step, by which the inputs are `moved`."""
        return Line(
            lambda steps: np.stack([self.function(moved(step)) for step in steps]),
            self.zero,
            self.noise,
            scale,
            low,
            high,
            base,
            lambda step, value: self.noise_of(moved(step), value),
        )

    def _scale(self, direction: Mapping[str, Array]) -> float:
        """The t at which the first entry has moved by its own size: steps must stay below it."""
        scale = np.inf
        for name, weights in direction.items():
            value = np.abs(np.asarray(self.values[name], dtype=np.float64))
            used = (weights != 0) & (value > 0)
            if np.any(used):
                scale = min(scale, float(np.min(value[used] / np.abs(weights[used]))))
        return scale if np.isfinite(scale) else 1.0

    def _slope(self, line: Line, moved: Callable[[float], Values], expected: Float | None) -> Slope:
        for thorough in (False, True):  # what is rough may look so from far away only
            ladder, estimate = climb(line, expected, thorough)
            if louder_near_zero(ladder, line):
                estimate = central(ladder)
            sides = classify(ladder)
            if np.all(sides.kind == PointKind.SMOOTH):
                break
        for side in (sides.above, sides.below):  # at an edge only one side has values
            missing = (
                ~np.isfinite(estimate.error) & np.isfinite(side.error) & np.isfinite(side.value)
            )
            estimate.value = np.where(missing, side.value, estimate.value)
            estimate.error = np.where(missing, side.error, estimate.error)
        return Slope(estimate, sides, steepest_of(ladder), reach_of(ladder, estimate.value))


def _agrees(slope: Slope, expected: Float) -> npt.NDArray[np.bool_]:
    apart = np.abs(slope.estimate.value - expected)
    return np.asarray(apart <= slope.estimate.error)


def _vindicates(closer: Slope, slope: Slope, expected: Float) -> bool:
    """Check whether shorter steps show the expected derivative, and more sharply than longer ones
    that do not."""
    sharper = closer.estimate.error < slope.estimate.error
    return bool(np.all(_agrees(closer, expected) & (sharper | _agrees(slope, expected))))


def _unknown(m: int) -> Slope:
    """The slope at a point where no step can be taken."""
    nothing = Estimate(np.full(m, np.nan), np.full(m, np.inf))
    kind = np.full(m, int(PointKind.SMOOTH))
    return Slope(nothing, Sides(kind, nothing, nothing, np.zeros(m, np.bool_)), np.zeros(m))


def steepest_of(ladder: Ladder) -> Float:
    """The steepest one-sided quotient on any step, (m,)."""
    rise = np.fmax(np.abs(ladder.plus - ladder.zero), np.abs(ladder.minus - ladder.zero))
    quotients = rise / ladder.h[:, None]
    return np.asarray(np.max(np.where(np.isfinite(quotients), quotients, 0.0), axis=0, initial=0.0))


def reach_of(ladder: Ladder, slope: Float) -> Float:
    """The longest step (m,) up to which all central quotients show this slope; inf if all of them
    do, nan if the shortest does not. A quotient is another one if it differs by half of the slope,
    or of what LEFT leaves of the steepest quotient if that is more."""
    h = ladder.h[:, None]
    apart = np.abs((ladder.plus - ladder.minus) / (2 * h) - slope)
    other = apart > np.fmax(np.abs(slope), LEFT * steepest_of(ladder)) / 2 + ladder.noise / h
    first = len(h) - np.argmax(other[::-1], axis=0)  # of the shorter steps that all show it
    steps = np.append(ladder.h, np.nan)
    return np.where(np.any(other, axis=0), steps[first], np.inf)


def louder_near_zero(ladder: Ladder, line: Line) -> bool:
    """Raise the noise of a ladder, in place, where short steps contradict the long ones and are
    noisier than was assumed; return whether any noise was raised. `where(x == 0, 1, sin(x) / x)`
    has no rounding at 0; its derivative has u / x of it nearby, until the numerator vanishes.

    Noise is raised only if the shortest step has the value of the point on both sides, and only to
    a level that two successive steps show. Shorter steps get proportionally more, as after a
    division by the step. A function that is flat beside the point contradicts long steps, too, but
    without noise.
    """
    raised = False
    h = ladder.h[:, None]
    flat = (ladder.plus[-1] == ladder.zero) & (ladder.minus[-1] == ladder.zero)
    for _ in range(ROUNDS):
        level, contradicted = _first_contradiction(ladder)
        contradicted &= flat
        if not np.any(contradicted):
            break
        start = max(level - 1, 0)
        steps = h[start : level + 2, 0]
        shown = [_noise_near(float(step), line) for step in steps]
        heard = np.max(np.minimum(shown[:-1], shown[1:]), axis=0)
        louder = contradicted & (heard > ladder.noise[start])
        if not np.any(louder):
            break
        grown = np.fmax(ladder.noise, heard * h[start] / h)  # a step may be 0
        shorter = np.arange(len(h))[:, None] >= start
        ladder.noise = np.where(louder & shorter, grown, ladder.noise)
        raised = True
    return raised


def _first_contradiction(ladder: Ladder) -> tuple[int, npt.NDArray[np.bool_]]:
    """The first level with a central quotient that excludes the sharpest estimate of longer steps,
    and a mask (m,) of the outputs where this happens."""
    levels = central_of_levels(ladder)
    best = np.argmin(levels.error, axis=0)[None]
    value, error = (np.take_along_axis(of, best, axis=0) for of in (levels.value, levels.error))
    h = ladder.h[:, None]
    apart = np.abs((ladder.plus - ladder.minus) / (2 * h) - value)
    bent = BENT * np.take_along_axis(apart, best, axis=0) * (h / h[best[0]].T) ** 2
    off = np.isfinite(apart) & (apart > error + bent + ladder.noise / h)
    off &= np.arange(len(h))[:, None] > best
    level = int(np.argmax(np.any(off, axis=1)))
    return level, np.asarray(off[level])


def _noise_near(step: float, line: Line) -> Float:
    """The noise (m,) of values around a step, on a side inside the domain."""
    around = step * (1 + AROUND * (np.arange(POINTS + 1) / POINTS - 0.5))
    if max(around) > line.high:
        around = -around
        if min(around) < line.low:
            return np.zeros(line.zero.size)
    return in_differences(line.at(around.tolist()))


def room(
    bounds: Mapping[str, tuple[float, float]], values: Values, direction: Mapping[str, Array]
) -> tuple[float, float]:
    """How far t may go down and up before an entry of `values` + t * direction leaves its bounds.
    Weights may be flat."""
    low, high = -np.inf, np.inf
    for name, weights in direction.items():
        bottom, top = bounds.get(name, (-np.inf, np.inf))
        if not (np.isfinite(bottom) or np.isfinite(top)):
            continue
        value, used = np.reshape(values[name], weights.shape), weights != 0
        ahead = np.where(weights > 0, top - value, bottom - value)[used] / weights[used]
        behind = np.where(weights > 0, bottom - value, top - value)[used] / weights[used]
        high = min(high, float(np.min(ahead, initial=np.inf)))
        low = max(low, float(np.max(behind, initial=-np.inf)))
    return low, high

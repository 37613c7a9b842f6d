"""Numerical derivatives with an error bar, of any function of one real step.

Central differences on a ladder of steps are extrapolated by Romberg's scheme (Ridders 1982,
"Accurate computation of F'(x) and F'(x) F''(x)"). Each output takes the window of the ladder with
the smallest error estimate, as in numdifftools and FiniteDifferences.jl. Truncation of a window of
j + 1 steps is O(h^(2j + 2)), rounding O(noise / h).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.large_arrays import parts
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import DIFFERENCE_SAFETY, Enough, Step

Float = npt.NDArray[np.float64]

# Part of the scale; no simple fraction, so that a periodic function is not sampled in step.
FIRST_STEP: Step = 0.21823
BATCH = 7  # levels evaluated at once: enough for a window of order 12 and its error estimate
DEEPEST = 42  # levels: below 2^-42 of the scale a step has few digits left in float64
WINDOW = 6  # a longer window gains nothing: its rounding grows as its truncation vanishes
# Times the noise: about the error bar that rounding leaves at steps near 1.
NOTHING_TO_GAIN: Enough = 40.0
# Times noise / largest step: a window that begins there ends 1 to 3 levels below it.
AT_THE_FLOOR: Enough = 8.0
# Relative error bar below which no further levels are taken: far below 2^-24 (float32).
GOOD: Enough = 2.0**-33
# Part of the function and its derivatives: the bar of the gap between second ones of both sides.
SAME_ON_BOTH_SIDES: Enough = 2.0**-10


@dataclass(slots=True)
class Ladder:
    """Values of a function g(t) with m outputs at t = +-h: h (k,), plus and minus (k, m), the
    rounding error of one value, noise (k, m), and zero (m,) at t = 0. A side outside the domain is
    nan."""

    h: Float
    plus: Float
    minus: Float
    noise: Float
    zero: Float

    def of(self, outputs: slice | Array) -> Ladder:
        """The ladder of some of the outputs."""
        plus, minus, noise = (x[:, outputs] for x in (self.plus, self.minus, self.noise))
        return Ladder(self.h, plus, minus, noise, self.zero[outputs])

    def sums(self, weights: Float) -> Ladder:
        """The ladder of sums of the outputs with weights (m, k), whose rounding errors are
        independent."""
        plus, minus, zero = (
            np.zeros((*x.shape[:-1], weights.shape[1])) for x in (self.plus, self.minus, self.zero)
        )
        square = np.zeros_like(plus)
        for inside in parts(len(weights)):
            part = self.of(inside)
            plus += part.plus @ weights[inside]
            minus += part.minus @ weights[inside]
            zero += part.zero @ weights[inside]
            square += np.square(part.noise) @ np.square(weights[inside])
        noise = np.sqrt(square)
        return Ladder(self.h, plus, minus, noise, zero)


@dataclass(slots=True)
class Estimate:
    """A derivative and its error bar for each output, shape (m,); the error is inf without an
    estimate."""

    value: Float
    error: Float


@dataclass(frozen=True, slots=True)
class Line:
    """A function of one step t with m outputs. `many` returns the values (steps, m) at several
    steps, `zero` (m,) is the value at 0, `noise` (m,) the rounding of one value, and `noise_of` the
    rounding at a step, from the step and its value. Steps are taken from `scale` down, inside `low`
    .. `high`, and are exact at `base`. No step is evaluated twice."""

    many: Callable[[Sequence[float]], Float]
    zero: Float
    noise: Float
    scale: float
    low: float = -np.inf
    high: float = np.inf
    base: float = 0.0
    noise_of: Callable[[float, Float], Float] | None = None
    known: dict[float, Float] = field(default_factory=dict)

    def at(self, steps: Sequence[float]) -> Float:
        """The values at these steps, (steps, m)."""
        new = [float(step) for step in steps if float(step) not in self.known]
        if new:
            self.known.update(zip(new, self.many(new), strict=True))
        return np.stack([self.known[float(step)] for step in steps])

    def noise_at(self, step: float) -> Float:
        """The noise at a step, of the noisier of both sides. A side outside the domain has none."""
        if self.noise_of is None:
            return self.noise
        sides = []
        for t in (step, -step):
            if self.low <= t <= self.high:
                (value,) = self.at([t])
                sides.append(np.where(np.isfinite(value), self.noise_of(t, value), np.nan))
        return np.fmax(*sides) if len(sides) == 2 else sides[0] if sides else self.noise


def climb(
    line: Line, expected: Float | None = None, thorough: bool = False
) -> tuple[Ladder, Estimate]:
    """Evaluate the function at +-h, with h halved from the line's scale down, until every output's
    central difference has a good error bar or smaller steps can only add rounding. If that is not
    enough, try steps near 1 (for a point close to 0 and a function that varies on the scale of 1).

    If the estimate contradicts `expected` (m,), the steps shrink until rounding is as large as the
    contradiction: estimates at steps much longer than the period of a function may agree by
    accident. `thorough` goes on to the smallest step. Returns the ladder and the best estimate.
    """
    ladder, size = _empty(line), line.zero.size
    top = FIRST_STEP * line.scale
    best = Estimate(np.full(size, np.nan), np.full(size, np.inf))
    for first in range(0, DEEPEST, BATCH):
        steps = exact_steps(top * np.ldexp(1.0, -np.arange(first, first + BATCH)), line.base)
        _extend(ladder, line, steps, _growing(line, steps))
        best = central(ladder)
        apart = _contradiction(best, expected)
        if steps[-1] == 0:
            break
        if thorough:
            continue
        if np.all((_is_accurate(best) | _at_the_floor(best, ladder)) & (apart == 0)):
            break
        heard = np.maximum(best.error, apart) * steps[-1]
        if first >= BATCH and np.all(line.noise > heard):
            break
    if top < FIRST_STEP and np.any(_may_gain(best, ladder, line)):
        best = _from_afar(best, ladder, line, top)
    return ladder, best


def _contradiction(best: Estimate, expected: Float | None) -> Float:
    """How far the estimate is from the expected derivative; 0 within its error bar."""
    if expected is None:
        return np.zeros_like(best.value)
    apart = np.abs(best.value - expected)
    return np.where(np.isfinite(apart) & (apart > best.error), apart, 0.0)


def _at_the_floor(best: Estimate, ladder: Ladder) -> npt.NDArray[np.bool_]:
    """Whether the error bar is the rounding at the largest step; smaller steps have more."""
    return np.asarray(best.error <= AT_THE_FLOOR * ladder.noise[0] / ladder.h[0])  # h may be 0


def _growing(line: Line, steps: Float) -> Callable[[float], Float]:
    """The noise as a function of the step. It may vanish at 0 (where a square has its minimum) and
    grow in proportion to the step; its growth is measured at the smallest step."""
    smallest = float(steps[-1])
    if smallest == 0:
        return lambda _: line.noise
    grown = line.noise_at(smallest) - line.noise
    slope = np.fmax(grown, 0.0) / smallest  # infinite noise does not grow
    return lambda step: line.noise + slope * step


def _from_afar(best: Estimate, near: Ladder, line: Line, top: float) -> Estimate:
    """The best estimate, improved by steps near 1 where these do not contradict steps near 0."""
    steps = FIRST_STEP * np.ldexp(1.0, -np.arange(2 * BATCH))
    far = _empty(line)
    _extend(far, line, exact_steps(steps[steps > top], line.base), line.noise_at)
    if far.h.size < 2:
        return best
    there = central(far)
    fits = np.abs(there.value - best.value) <= there.error + best.error
    near_0 = (near.plus - near.minus) / (2 * near.h[:, None])
    # steps near 0 may have no bar because rounding hides the derivative, but not because they
    # overflow: steps near 1 do not see a pole beside 0
    drowned = ~np.isfinite(best.error) & np.all(np.isfinite(near_0), axis=0)
    better = (there.error < best.error) & (fits | drowned)
    return Estimate(
        np.where(better, there.value, best.value), np.where(better, there.error, best.error)
    )


def _may_gain(best: Estimate, ladder: Ladder, line: Line) -> npt.NDArray[np.bool_]:
    """Whether steps near 1 may improve an estimate: rounding spoils even the largest step near 0,
    so the function does not bend on that scale, and would not spoil steps near 1 as well."""
    drowned = ~_is_accurate(best) & (_at_the_floor(best, ladder) | ~np.isfinite(best.error))
    if not np.any(drowned):
        return np.asarray(drowned)
    least = np.fmin(line.noise, line.noise_at(1.0))
    return np.asarray(drowned & (best.error > NOTHING_TO_GAIN * least))


def exact_steps(steps: npt.NDArray[np.floating[Any]], base: float) -> Float:
    """The nearest steps that `base` + step represents exactly (base + h rounds otherwise)."""
    return np.asarray((abs(base) + steps) - abs(base), dtype=np.float64)


def moved_entry(values: npt.NDArray[Any], flat: int, step: float) -> Float:
    """The numbers in float64, with the number at this flat place moved by `step`."""
    there = np.array(values, np.float64)
    there.reshape(-1)[flat] += step
    return there


def _is_accurate(best: Estimate) -> npt.NDArray[np.bool_]:
    return np.asarray((best.error <= GOOD * np.abs(best.value)) | (best.error == 0))


def _empty(line: Line) -> Ladder:
    none = np.empty((0, line.zero.size))
    return Ladder(np.empty(0), none, none, none, line.zero)


def _extend(ladder: Ladder, line: Line, steps: Float, noise_at: Callable[[float], Float]) -> None:
    m = ladder.zero.size
    noise = np.stack([noise_at(float(h)) for h in steps])
    plus, minus = np.full((steps.size, m), np.nan), np.full((steps.size, m), np.nan)
    for k, h in enumerate(steps):
        if 0 < h <= line.high:
            (plus[k],) = line.at([h])
        if 0 < h <= -line.low:
            (minus[k],) = line.at([-h])
    order = np.argsort(-np.concatenate([ladder.h, steps]), kind="stable")
    ladder.h = np.concatenate([ladder.h, steps])[order]
    ladder.plus = np.concatenate([ladder.plus, plus])[order]
    ladder.minus = np.concatenate([ladder.minus, minus])[order]
    ladder.noise = np.concatenate([ladder.noise, noise])[order]


def central(ladder: Ladder) -> Estimate:
    """The best extrapolated central difference of each output, (m,)."""
    return _uncontradicted(central_of_levels(ladder))


def central_of_levels(ladder: Ladder) -> Estimate:
    """The best extrapolated central difference that begins at each level, (k, m)."""
    quotients = (ladder.plus - ladder.minus) / (2 * ladder.h[:, None])
    return _extrapolate(quotients, ladder.h, ladder.noise, power=2)


def second(ladder: Ladder) -> Estimate:
    """The best extrapolated second difference of each output, (m,), for steps in units of its
    scale. The error bar is inf if the second differences of both sides are not seen to agree, as
    for x |x| at 0."""
    h, at_zero = ladder.h[:, None], _nearest_known(ladder.noise)
    slope = central(ladder)
    quotients = (ladder.plus - 2 * ladder.zero + ladder.minus) / h**2
    noise = (2 * ladder.noise + 2 * at_zero) / h
    found = _uncontradicted(_extrapolate(quotients, ladder.h, noise, power=2))
    apart = (ladder.plus - ladder.minus - 2 * h * slope.value) / h**2
    noise = 2 * ladder.noise / h + 2 * slope.error
    sides = _uncontradicted(_extrapolate(apart, ladder.h, noise, power=1))
    size = np.max(np.abs([ladder.zero, slope.value, found.value]), axis=0)
    same = (np.abs(sides.value) <= sides.error) & (sides.error <= SAME_ON_BOTH_SIDES * size)
    return Estimate(found.value, np.where(same, found.error, np.inf))


def one_sided(ladder: Ladder, side: int) -> Estimate:
    """The best extrapolated one-sided difference of each output, from above (+1) or below (-1),
    (m,)."""
    return _uncontradicted(one_sided_of_levels(ladder, side))


def one_sided_of_levels(ladder: Ladder, side: int) -> Estimate:
    """The best extrapolated one-sided difference that begins at each level, (k, m)."""
    at_zero = _nearest_known(ladder.noise)  # the value at 0 is as noisy as those next to it
    return _extrapolate(quotients_of(ladder, side), ladder.h, ladder.noise + at_zero, power=1)


def quotients_of(ladder: Ladder, side: int) -> Float:
    """The one-sided quotients at each level (k, m), from above (+1) or below (-1)."""
    if side > 0:
        return np.asarray((ladder.plus - ladder.zero) / ladder.h[:, None])
    return np.asarray((ladder.zero - ladder.minus) / ladder.h[:, None])


def _nearest_known(noise: Float) -> Float:
    """The last finite number of each column; inf if there is none."""
    known = np.isfinite(noise)
    last = len(noise) - 1 - np.argmax(known[::-1], axis=0)
    picked = np.take_along_axis(noise, last[None], axis=0)[0]
    return np.where(np.any(known, axis=0), picked, np.inf)


def _extrapolate(quotients: Float, h: Float, noise: Float, power: int) -> Estimate:
    """Romberg's tableau over quotients (k, m) whose error expands in powers of h^power: the best
    estimate that begins at each level, (k, m). `_uncontradicted` chooses among them.

    Entry (i, j) uses levels i .. i + j. Its error is the larger distance to the two entries from
    which it was computed, times DIFFERENCE_SAFETY, plus the rounding of its smallest step. `noise`
    is (k, m).
    """
    count, m = quotients.shape
    values, errors = np.full((count, m), np.nan), np.full((count, m), np.inf)
    table = quotients
    amplification, loudest = 1.0, noise
    for j in range(1, min(WINDOW, count - 1) + 1):
        finer, coarser = table[1:], table[:-1]
        ratio = 2.0 ** (power * j)
        new = finer + (finer - coarser) / (ratio - 1)
        # the sum of the weights of all values in one window
        amplification *= (ratio + 1) / (ratio - 1)
        loudest = np.maximum(loudest[:-1], noise[j:])
        spread = np.maximum(np.abs(new - finer), np.abs(new - coarser))
        error = DIFFERENCE_SAFETY * spread + amplification * loudest / h[j:, None]
        error = np.where(np.isfinite(new) & np.isfinite(error), error, np.inf)
        better = error < errors[: count - j]
        values[: count - j] = np.where(better, new, values[: count - j])
        errors[: count - j] = np.where(better, error, errors[: count - j])
        table = new
    return Estimate(values, errors)


def _uncontradicted(levels: Estimate) -> Estimate:
    """For each output, the estimate with the smallest error that no finer level contradicts.

    At steps longer than the period of a function two entries may agree by accident. Shorter steps
    then give another derivative, with error bars that exclude the first.
    """
    values, errors = levels.value, levels.error
    known = np.isfinite(errors)
    low = np.where(known, values - errors, -np.inf)
    high = np.where(known, values + errors, np.inf)
    # the interval that all finer levels allow: running bounds from the last level up
    floor, ceiling = low.copy(), high.copy()
    floor[:-1] = np.maximum.accumulate(low[:0:-1], axis=0)[::-1]
    ceiling[:-1] = np.minimum.accumulate(high[:0:-1], axis=0)[::-1]
    fits = known & (low <= ceiling) & (high >= floor)
    pick = np.argmin(np.where(fits, errors, np.inf), axis=0)[None]
    return Estimate(
        np.take_along_axis(values, pick, axis=0)[0],
        np.take_along_axis(np.where(fits, errors, np.inf), pick, axis=0)[0],
    )

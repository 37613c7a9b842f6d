"""Differences of weighted sums of many outputs, some of which have kinks nearby. Each output is
taken at the longest steps that cross none of its own kinks, on both sides of the point or on one.

In a layer of ReLUs, a step of 2^-9 crosses the kinks of a few outputs in a thousand; behind a
hidden layer, the kinks of most. Steps that cross no kink at all are so short that the rounding of
all outputs together hides the sums. The rounding of the few outputs that need such steps does not.
Kinks at random places are on both sides of only a few outputs, so few outputs need shorter steps.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.large_arrays import parts
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import BENDING, VAGUE_BAR, Enough
from gradcheck_cli.truth.numerics.differences import (
    DEEPEST,
    Estimate,
    Float,
    Ladder,
    Line,
    central,
    central_of_levels,
    one_sided,
    one_sided_of_levels,
    quotients_of,
)
from gradcheck_cli.truth.numerics.directions import steepest_of
from gradcheck_cli.truth.numerics.verify_first import FEWER, Probe, bends, even, laddered

STRIDE = 5  # levels from one look to the next, which leave 1 of 32 kinks
BY_CHANCE = 8  # outputs that may all have to wait once more
# Part of the slope of an output: more than its bending leaves (at most 5e-9 for 25,000 outputs of
# a tanh). Kinks that move a quotient by less are rare, and the bars of the sums account for them.
SETTLED: Enough = 2.0**-26
# Times noise / smallest step: more than rounding leaves, even in long sums. Shorter steps, on which
# rounding is larger, would gain nothing.
DROWNED: Enough = 128.0
# The noise of a one-sided difference, in units of that of a central one (`differences`).
LOUDER: Enough = 9.0
# Levels from the start of the next look to a step that 1 of 32 kinks is within. It is 5 levels
# below the shortest step of outputs that are held back: rounding is 32 times as large there, so
# LOUDER * DROWNED leaves four times what `bends` detects.
BESIDE = 2
NEITHER = 2  # of the sides of an output


@dataclass(slots=True)
class Sums:
    """The derivatives (k,) of weighted sums of outputs, their error bars, and the steepest
    quotients. `level` is the level where the last look began, `usual` the level of the first look
    at which most outputs were smooth."""

    value: Float
    error: Float
    steepest: Float
    level: int
    usual: int

    def add(self, ladder: Ladder, side: int) -> None:
        """Add the sums of further outputs, by central differences (0) or from one side (1, -1)."""
        found = one_sided(ladder, side) if side else central(ladder)
        self.value += found.value
        self.error += found.error
        self.steepest += steepest_of(ladder)

    def probe(self, expected: Float) -> Probe:
        """Compare the first sums with the expected derivatives."""
        first = slice(len(expected))
        estimate = Estimate(self.value[first].copy(), self.error[first].copy())
        agrees = np.abs(estimate.value - expected) <= estimate.error
        sides = even(estimate)
        return Probe(estimate, sides, self.steepest[first], agrees, False, self.level, FEWER)


def sifted(line: Line, rows: Float, level: int) -> Sums | None:
    """The derivatives of `rows` (k, m) @ F by FEWER steps: from `level` on for outputs that are
    smooth there, and STRIDE levels further down for the others. `line` is a line of F itself. None
    if a step leaves the domain, a value is not finite, or some outputs bend on every step: a kink
    at the point itself cannot be sifted."""
    nothing = np.zeros(len(rows))
    total = Sums(nothing, nothing.copy(), nothing.copy(), level, level)
    waiting = whole = np.flatnonzero(np.any(rows != 0, axis=0))
    noise = _noise(line.noise[waiting], rows[:, waiting])
    held: list[_OneSided] = []
    began = False
    while waiting.size or held:
        outputs, loud = waiting, noise
        if held:
            outputs = np.concatenate([waiting, *(one.outputs for one in held)])
            loud = np.concatenate([noise, *(one.ladder.noise[-1] for one in held)])
        # all outputs, in their order, as a slice, which copies nothing
        every = outputs is whole and outputs.size == line.zero.size
        which = slice(None) if every else outputs
        first, levels = (level, FEWER) if waiting.size else (level + BESIDE, 1)
        ladder = laddered(line, first, levels, which, loud)
        if ladder is None or first + levels > DEEPEST:
            return None
        total.level = level
        next_up = np.zeros(outputs.size, dtype=np.bool_)
        end = waiting.size
        for one in held:
            start, end = end, end + one.outputs.size
            next_up[start:end] = ~one.without_kink(ladder.of(slice(start, end)), rows, total)
        held = []
        if waiting.size:
            mine = slice(waiting.size)
            sides, held = _add_smooth(total, ladder.of(mine), waiting, rows)
            left = sides == NEITHER
            few = np.count_nonzero(sides) <= max(BY_CHANCE, left.size // 2)  # not smooth on both
            if np.any(left) and (_is_drowned(ladder.of(mine), left) or (began and not few)):
                return None
            if np.count_nonzero(left) > left.size // 2 and total.usual == level:
                total.usual += STRIDE
            began |= not np.all(left)
            next_up[mine] = left
            level += STRIDE
        del ladder  # the next one needs its memory
        waiting, noise = outputs[next_up], loud[next_up]
    return total


def _add_smooth(
    total: Sums, ladder: Ladder, outputs: Array, rows: Float
) -> tuple[Array, list[_OneSided]]:
    """Add the sums of the outputs (places, (m,)) that are smooth, on both sides or on one. Return
    the sides (m,) of all, and the outputs that may have a kink at the point itself."""
    sides = _smooth_sides(ladder)
    total.add(ladder.sums(np.where(sides == 0, rows[:, outputs], 0.0).T), 0)
    held = []
    for side in (1, -1):
        one = _OneSided(outputs, side, ladder).of(sides == side)
        clear = one.without_kink(one.ladder, rows, total)
        held += [] if np.all(clear) else [one.of(~clear)]
    return sides, held


def _is_drowned(ladder: Ladder, outputs: Array) -> bool:
    """Check whether rounding leaves too little of the quotients of these outputs, a mask (m,)."""

    def drowned(some: Ladder) -> bool:
        return bool(np.all(some.noise[-1] > VAGUE_BAR * some.h[-1] * steepest_of(some)))

    return all(drowned(ladder.of(inside).of(outputs[inside])) for inside in parts(outputs.size))


@dataclass(slots=True)
class _OneSided:
    """Outputs (places, (m,)) that are smooth on one `side` on the steps of a ladder."""

    outputs: Array
    side: int
    ladder: Ladder

    def of(self, chosen: Array) -> _OneSided:
        """Some of the outputs."""
        return _OneSided(self.outputs[chosen], self.side, self.ladder.of(chosen))

    def without_kink(self, near: Ladder, rows: Float, total: Sums) -> Array:
        """Mark the outputs (m,) without a kink at the point itself, because the shortest step of
        `near` crosses none on either side, and add their sums to `total`. On that step, `bends`
        would detect no more rounding than is `enough` on the steps of the ladder."""
        step, quotients = near.h[-1], quotients_of(self.ladder, self.side)
        apart = np.abs(near.plus[-1] - 2 * near.zero + near.minus[-1]) / step
        # the quotients of both sides differ by the second derivative times the step, and those of
        # one side grow by half of that
        bent = 2 * np.abs(quotients[0] - quotients[-1]) / (self.ladder.h[0] - self.ladder.h[-1])
        enough = _enough(self.ladder, np.abs(quotients[-1]), LOUDER)
        clear: Array = apart <= np.maximum(BENDING * bent * step, enough)
        if np.any(clear):
            some = self.of(clear)
            total.add(some.ladder.sums(rows[:, some.outputs].T), self.side)
        return clear


def _noise(noise: Float, rows: Float) -> Float:
    """The noise of each output (m,), no less than is usual for its part of the sums: where terms
    cancel in one output, its size says too little."""
    weights = np.abs(rows[0])
    usual = np.sqrt(np.mean(np.square(weights * noise)))
    return np.asarray(np.maximum(noise, usual / weights))


def _smooth_sides(ladder: Ladder) -> Array:
    """The sides (m,) on which each output does not bend and has a bar that is narrow compared with
    the slopes of all: 0 for both, 1 for above alone, -1 for below alone, or NEITHER. An output that
    is smooth on each side, but not on both together, has a kink beside the point."""
    slopes = np.abs(ladder.plus[-1] - ladder.minus[-1]) / (2 * ladder.h[-1])
    usual = float(np.sqrt(np.mean(np.square(slopes)))) if slopes.size else 0.0
    found = np.empty(slopes.size, dtype=np.int8)
    for inside in parts(slopes.size):
        part, sizes = ladder.of(inside), np.maximum(slopes[inside], usual)
        enough = _enough(part, sizes)
        whole = central_of_levels(part).error[0]  # of windows that begin with the longest step
        smooth = (whole <= enough) & ~bends(part, enough)
        rest = np.flatnonzero(~smooth)
        part, enough = part.of(rest), _enough(part.of(rest), sizes[rest], LOUDER)
        above, below = (one_sided_of_levels(part, side).error[0] <= enough for side in (1, -1))
        found[inside] = 0
        found[inside][rest] = np.where(above == below, NEITHER, np.where(above, 1, -1))
    return found


def _enough(ladder: Ladder, sizes: Float, louder: float = 1.0) -> Float:
    """How wide the bar of an output (m,) with a slope of this size may be."""
    drowned = louder * DROWNED * ladder.noise[-1] / ladder.h[-1]
    return np.asarray(np.maximum(SETTLED * sizes, drowned))

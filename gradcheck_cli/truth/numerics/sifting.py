"""Differences of weighted sums of many outputs, some of which have kinks nearby: each output is
taken at the longest steps that cross none of its own.

In a layer of ReLUs, a step of 2^-9 crosses the kinks of a few outputs in a thousand. Steps that
cross none at all are so short that the rounding of all outputs together drowns the sums; that of
the few outputs which need such steps does not.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.thresholds import VAGUE_BAR, Enough
from gradcheck_cli.truth.numerics.differences import (
    DEEPEST,
    Estimate,
    Float,
    Ladder,
    central,
    central_of_levels,
)
from gradcheck_cli.truth.numerics.directions import steepest_of
from gradcheck_cli.truth.numerics.probes import parts
from gradcheck_cli.truth.numerics.verify_first import (
    FEWER,
    Line,
    Probe,
    bends,
    even,
    laddered,
)

STRIDE = 5  # levels from one look to the next, which leave 1 of 32 kinks
BY_CHANCE = 8  # outputs that may all have to wait once more
# Of the slope of an output, more than bending leaves of it (5e-9 was the most of 25,000 outputs of
# a tanh). Kinks that move a quotient by less are rare, and the bars of the sums account for them.
SETTLED: Enough = 2.0**-26
# Times noise / smallest step: more than rounding leaves, even of long sums. Shorter steps, on which
# it is larger, would gain nothing.
DROWNED: Enough = 128.0


def sifted(line: Line, rows: Float, expected: Float, level: int) -> Probe | None:
    """What FEWER steps say about the derivatives (k,) of `rows` (k, m) @ F, from `level` on for
    outputs that are smooth there, and STRIDE levels further down for the others; `line` is of F
    itself. None where a step leaves the domain, a value is not finite, or outputs are left that
    bend on any step: what has a kink at the point itself is not sifted."""
    total = np.zeros((3, len(rows)))
    waiting = np.flatnonzero(np.any(rows != 0, axis=0))
    noise = _noise(line.noise[waiting], rows[:, waiting])
    began = False
    while True:
        every = waiting.size == line.zero.size  # as a slice, which copies nothing
        ladder = laddered(line, level, FEWER, slice(None) if every else waiting, noise)
        if ladder is None:
            return None
        smooth = _smooth(ladder)
        if np.any(smooth):
            sums = ladder.sums(np.where(smooth, rows[:, waiting], 0.0).T)
            found = central(sums)
            total += found.value, found.error, steepest_of(sums)
        left = ~smooth
        if not np.any(left):
            break
        drowned = np.all(noise[left] > VAGUE_BAR * ladder.h[-1] * steepest_of(ladder)[left])
        few = np.count_nonzero(left) <= max(BY_CHANCE, left.size // 2)
        if drowned or (began and not few) or level + STRIDE + FEWER > DEEPEST:
            return None
        began |= not np.all(left)
        waiting, noise, level = waiting[left], noise[left], level + STRIDE
    value, error, steepest = total
    agrees = np.abs(value - expected) <= error
    estimate = Estimate(value, error)
    return Probe(estimate, even(estimate), steepest, agrees, False, level, FEWER)


def _noise(noise: Float, rows: Float) -> Float:
    """That of each output (m,), no less than is usual for its part of the sums: where terms cancel
    in one output, its size says too little."""
    weights = np.abs(rows[0])
    usual = np.sqrt(np.mean(np.square(weights * noise)))
    return np.asarray(np.maximum(noise, usual / weights))


def _smooth(ladder: Ladder) -> Array:
    """Outputs (m,) that do not bend, and whose bars are narrow beside the slopes of all."""
    size, last = ladder.zero.size, ladder.h[-1]
    slopes = (ladder.plus[-1] - ladder.minus[-1]) / (2 * last)
    usual = float(np.sqrt(np.mean(np.square(slopes)))) if size else 0.0
    found = np.empty(size, dtype=np.bool_)
    for inside in parts(size):
        part = ladder.of(inside)
        sizes = np.maximum(np.abs(slopes[inside]), usual)
        enough = np.maximum(SETTLED * sizes, DROWNED * part.noise[-1] / last)
        whole = central_of_levels(part).error[0]  # of windows that begin with the longest step
        found[inside] = (whole <= enough) & ~bends(part, enough)
    return found

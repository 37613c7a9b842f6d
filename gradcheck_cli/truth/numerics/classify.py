"""Decide from one-sided differences whether a point is smooth, a kink, a jump or a vertical
tangent.

As h is halved, the increments of a one-sided difference quotient q(h) = (g(h) - g(0)) / h shrink by
1/2 if g has a second derivative on that side, stay the same for h log h, grow by sqrt(2) for
sqrt(h) and double at a jump. This ratio needs no tolerance and no knowledge of g. It is the
exponent test p = log2(J(h) / J(h/2)) of the second difference, applied to each side separately.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import DIVERGES, JUMPS
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.numerics.differences import Estimate, Float, Ladder, one_sided

RUN = 5  # consecutive halvings that must agree, at the deep end of the ladder


@dataclass(slots=True)
class Sides:
    """The kind of each output (m,), and the one-sided derivatives with their error bars. An
    infinite derivative (a vertical tangent) is inf with error 0; a missing side is nan with error
    inf. An output is `isolated` (m,) if it has a value at the point and none beside it."""

    kind: npt.NDArray[np.int64]
    above: Estimate
    below: Estimate
    isolated: npt.NDArray[np.bool_]


def classify(ladder: Ladder) -> Sides:
    """Return the kind of the point t = 0 for each of the m outputs."""
    above, below = one_sided(ladder, +1), one_sided(ladder, -1)
    kind = np.full(ladder.zero.size, int(PointKind.SMOOTH))
    gap = np.abs(above.value - below.value)
    kink = gap > 2 * (above.error + below.error)  # both bars carry their safety factor
    kind[kink & np.isfinite(gap) & _stays(ladder, gap)] = int(PointKind.KINK)
    for side, estimate in ((+1, above), (-1, below)):
        ratio, sign = _growth(ladder, side)
        diverges = ratio >= DIVERGES
        jumps = ratio >= JUMPS
        kind[diverges & (kind != int(PointKind.JUMP))] = int(PointKind.UNDEFINED)
        kind[jumps] = int(PointKind.JUMP)
        estimate.value = np.where(diverges, np.copysign(np.inf, sign), estimate.value)
        estimate.error = np.where(diverges, 0.0, estimate.error)
    isolated = _undefined_outputs(ladder, ladder.plus) & _undefined_outputs(ladder, ladder.minus)
    isolated &= np.isfinite(ladder.zero)
    kind[isolated] = int(PointKind.UNDEFINED)
    return Sides(kind, above, below, isolated)


def _stays(ladder: Ladder, gap: Float) -> npt.NDArray[np.bool_]:
    """Mark the outputs (m,) whose one-sided quotients stay half of the `gap` apart as steps are
    halved, as at a kink. At other points their distance is a h + b h^3 + ..., and both of these
    terms are eliminated here. Error bars, which may be too narrow for a few long steps, are not
    used. True if rounding hides the answer."""
    used = ladder.h > 0
    h = ladder.h[used][:, None]
    if len(h) < 3:
        return np.ones(gap.size, dtype=np.bool_)
    apart = (ladder.plus - 2 * ladder.zero + ladder.minus)[used] / h
    linear = 2 * apart[1:] - apart[:-1]
    left = (8 * linear[1:] - linear[:-1]) / 7
    # in units of noise / h: 4 roundings each, so 8 + 2 in a linear one, and (80 + 5) / 7 here
    heard = np.isfinite(left) & (13 * ladder.noise[used][2:] / h[2:] < gap / 2)
    deepest = len(left) - 1 - np.argmax(heard[::-1], axis=0)
    stays = np.abs(np.take_along_axis(left, deepest[None], axis=0)[0]) >= gap / 2
    return np.asarray(stays | ~np.any(heard, axis=0))


def _undefined_outputs(ladder: Ladder, values: Float) -> npt.NDArray[np.bool_]:
    """Mark the outputs (m,) without a value on any of the last RUN steps of a side."""
    used = ladder.h > 0
    deepest = values[used][-RUN:]
    enough = len(deepest) == RUN
    return np.asarray(np.all(~np.isfinite(deepest), axis=0) & enough)


def _growth(ladder: Ladder, side: int) -> tuple[Float, Float]:
    """The smallest ratio of successive increments over the deepest RUN halvings that rounding does
    not hide, and the sign of the quotient. Both are 0 if values are missing, or if the next smaller
    step does not show the increment that this ratio predicts."""
    values = ladder.plus if side > 0 else ladder.minus
    used = ladder.h > 0
    h, size = ladder.h[used][:, None], ladder.zero.size
    if len(h) < RUN + 2:
        return np.zeros(size), np.zeros(size)
    quotient = side * (values[used] - ladder.zero) / h
    step = np.diff(quotient, axis=0)
    audible = 8 * ladder.noise[used][1:] / h[1:]  # 4 roundings a step, twice that to be sure
    heard = np.isfinite(step) & (np.abs(step) > audible)
    last = len(step) - 1 - np.argmax(heard[::-1], axis=0)
    last = np.maximum(np.where(np.any(heard, axis=0), last, 0), RUN)
    window = last + np.arange(-RUN, 1)[:, None]
    run = np.take_along_axis(step, window, axis=0)
    sound = np.all(np.take_along_axis(heard, window, axis=0), axis=0)
    ratio = run[1:] / run[:-1]
    following = np.minimum(last + 1, len(step) - 1)[None]
    gone = DIVERGES * np.abs(run[-1]) > np.take_along_axis(audible, following, axis=0)[0]
    sound &= ~gone | (last == len(step) - 1)
    sign = np.sign(np.take_along_axis(quotient, last[None] + 1, axis=0)[0])
    return np.where(sound, np.min(ratio, axis=0), 0.0), np.where(sound, sign, 0.0)

"""Noise that grows towards the point: that of a function which has a value of its own there.

`where(x == 0, 1, sin(x) / x)` has no rounding at 0. Its derivative, (x cos(x) - sin(x)) / x^2,
has u / x of it nearby, until the numerator vanishes altogether: the shortest steps all show exactly
0. Where they contradict the long ones, the noise is measured on the steps in between.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.thresholds import Enough, Step
from gradcheck_cli.truth.numerics.differences import Float, Ladder, central_of_levels
from gradcheck_cli.truth.numerics.noise import ORDERS, POINTS, in_differences

ROUNDS = 8  # of contradictions
# Of a step, from the first to the last of the points where noise is looked for: a bend or a jump is
# within that of one step and not of the next one, which is half as long.
AROUND: Step = 0.6
BENT: Enough = 2.0  # times what the longest step bends by: a shorter one does by its square


def louder_near_zero(
    ladder: Ladder, function: Callable[[float], Float], low: float, high: float
) -> bool:
    """Raises the noise of a ladder, in place, where short steps contradict the long ones and are
    noisier than they were said to be; whether there are such.

    Only where the shortest step has the value of the point on both sides. Noise is believed that
    two steps in a row show; shorter ones have more in proportion, as of what is divided by the
    step. A function that is flat next to the point contradicts long steps, too, but without noise.
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
        shown = [_around(float(step), function, low, high, ladder.zero) for step in steps]
        heard = np.max(np.minimum(shown[:-1], shown[1:]), axis=0)
        louder = contradicted & (heard > ladder.noise[start])
        if not np.any(louder):
            break
        with np.errstate(all="ignore"):  # a step may be 0
            grown = np.fmax(ladder.noise, heard * h[start] / h)
        shorter = np.arange(len(h))[:, None] >= start
        ladder.noise = np.where(louder & shorter, grown, ladder.noise)
        raised = True
    return raised


def _first_contradiction(ladder: Ladder) -> tuple[int, npt.NDArray[np.bool_]]:
    """The first level whose central quotient excludes the sharpest estimate of longer steps, and
    the outputs (m,) of which it does."""
    levels = central_of_levels(ladder)
    best = np.argmin(levels.error, axis=0)[None]
    value, error = (np.take_along_axis(of, best, axis=0) for of in (levels.value, levels.error))
    h = ladder.h[:, None]
    with np.errstate(all="ignore"):
        apart = np.abs((ladder.plus - ladder.minus) / (2 * h) - value)
        bent = BENT * np.take_along_axis(apart, best, axis=0) * (h / h[best[0]].T) ** 2
        off = np.isfinite(apart) & (apart > error + bent + ladder.noise / h)
    off &= np.arange(len(h))[:, None] > best
    level = int(np.argmax(np.any(off, axis=1)))
    return level, np.asarray(off[level])


def _around(
    step: float, function: Callable[[float], Float], low: float, high: float, zero: Float
) -> Float:
    """The noise (m,) of values about a step, on a side inside the domain."""
    around = step * (1 + AROUND * (np.arange(POINTS + 1) / POINTS - 0.5))
    if max(around) > high:
        around = -around
        if min(around) < low:
            return np.zeros(zero.size)
    return in_differences(np.stack([function(float(point)) for point in around]), ORDERS)

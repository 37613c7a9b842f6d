"""The truth of a block from the callable's own derivatives in its highest precision, differences,
and the effect of rounding on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import (
    A_DIGIT,
    FIRST_ORDER_SLACK,
    NO_DIGITS,
    OPERATIONS,
    ROUNDINGS,
    STEADY,
    Residue,
    Step,
)
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.truth.blocks import Differences, Merged, merge

# Part of a derivative. Two modes may differ by 2 FIRST_ORDER_SLACK floors, so by half of a hidden
# term: differences of blurred values may be off by as much.
HIDDEN_PART: Residue = 0.5 / (2 * FIRST_ORDER_SLACK)
MOVE: Step = 0.375  # part of the bits that stay: in float64, moves of 2^-20 bend no layer

BLURRED = (
    "the value is smaller than the last digit of the inputs, so its differences may lack a term; "
    "they contradict the gradient"
)

UNSEEN = (
    "the error bar of the difference leaves no digit of the derivative, and is wide compared with "
    "every slope around the point"
)


@dataclass(frozen=True, slots=True)
class Rounding:
    """The effect of rounding on a block, every array (m, n).

    cost      how far half an ulp of the judged dtype in every number moves the block
    noise     how far rounding in the subject's own dtype moves it, measured by moves of a few ulps
    natural   the size of a derivative of this function
    blind     values have fewer digits than their dtype, so that agreement with a difference says
              little
    scattered like `noise`, measured by longer moves, which reach other roundings
    """

    cost: Array
    noise: Array
    natural: Array
    blind: bool = False
    scattered: Array | float = 0.0


def weigh_block(
    own: Array,
    found: Differences,
    rounding: Rounding,
    scale: Array,
    subject: str,
    judged: str,
    settle: Callable[[Merged], Merged] = lambda merged: merged,
) -> tuple[TruthBlock, str]:
    """The truth of a block (m, n) from the subject's `own` derivatives in the dtype `subject` and
    from differences, with costs in the dtype `judged`; also why entries are undecided. `settle` may
    change kinds before anything is confirmed."""
    cost = _steady(own, found, rounding, subject, judged)
    ratio = FORMATS[subject].unit_roundoff / FORMATS[judged].unit_roundoff
    inner = cost * ratio  # what rounding costs in the subject's own precision
    noise = ROUNDINGS * np.fmax(rounding.noise, rounding.scattered)
    spread = 4 * FORMATS[subject].ulp(own)
    floor = np.full(own.shape, np.inf) if rounding.blind else inner + noise
    ulp = FORMATS[judged].ulp(own)
    first = merge(own, spread, found, True, ulp, lambda: (inner, floor))
    merged = settle(first)
    hidden = (merged.kind == PointKind.UNDECIDED) & (first.kind != PointKind.UNDECIDED)
    if not rounding.blind:
        # if the subject's own derivative is not finite, the difference is all that is known
        known = np.where(np.isfinite(own), own, found.value)
        smooth = merged.kind == PointKind.SMOOTH
        believed = merged.confirmed | (~np.isfinite(own) & smooth)
        merged = left_open(merged, believed & unseen(known, found, scale, subject), UNSEEN)
    agreed = merged.confirmed & (merged.kind == PointKind.SMOOTH)
    # if a difference agrees, only the rounding of the derivative is left open
    error = merged.error
    if not rounding.blind:
        error = np.where(agreed, np.minimum(error, spread + 4 * inner + noise), error)
    # a derivative that differences cannot distinguish from zero, and that small moves change
    # altogether, is rounding that persists at every move, as of a sum that should be 1 and is not
    none = agreed & (np.abs(own) <= found.error)
    relative = cost / FORMATS[judged].unit_roundoff
    none &= rounding_only(own, relative, rounding.natural, subject)
    error = np.where(none, np.fmax(error, np.abs(own)), error)
    noise = np.where(none, np.fmax(noise, ROUNDINGS * np.abs(own)), noise)  # a sample of the noise
    block = merged.block(
        found,
        error=error,
        condition=cost,
        allowance=ROUNDINGS * cost,
        floor=np.fmax(ROUNDINGS * cost + noise / ratio, _of_another_mode(hidden, own, found)),
        scale=scale,
        confirmed=agreed,
    )
    return block, merged.reason


def _of_another_mode(hidden: Array, own: Array, found: Differences) -> Array:
    """How far off another mode may be. A term that is hidden from differences is hidden from that
    mode, too; if the difference sees the term, a mode that sees it is off by as much."""
    part = np.where(hidden, HIDDEN_PART * np.abs(own), 0.0)
    sees = hidden & (np.abs(found.value) > found.error)
    apart = 2 * HIDDEN_PART * (np.abs(own - found.value) + found.error)
    return np.where(sees, np.fmax(part, apart), part)


def _steady(own: Array, found: Differences, rounding: Rounding, subject: str, judged: str) -> Array:
    """The cost; 0 where a few ulps move a derivative as far as a millionth of the input does, by
    half of its digits or more. Then the change is another derivative beside the point and no
    rounding, so it excuses nothing. A derivative that may be zero is all rounding and keeps its
    cost."""
    change = rounding.cost / FORMATS[judged].unit_roundoff * move_of(subject)
    half = FORMATS[subject].half * np.abs(own)
    jumps = rounding.noise > np.fmax(STEADY * change, half)
    jumps &= rounding.noise > ROUNDINGS * rounding.scattered
    jumps &= np.abs(own) > found.error
    return np.where(jumps, 0.0, rounding.cost)


def unseen(own: Array, found: Differences, scale: Array, subject: str) -> Array:
    """Mark the entries (m, n) about which a difference says nothing. Its error bar leaves no digit
    of the derivative `own` and exceeds half of the digits of the steepest slope around: compared
    with that slope, the entry may be as good as zero. A derivative of zero counts as seen if the
    value never changes."""
    half = FORMATS[subject].half
    wide = found.error > np.fmax(A_DIGIT * np.abs(own), half * scale)
    still = (own == 0) & (found.steepest == 0)
    return np.asarray(wide & np.isfinite(found.error) & ~found.vouched & ~still)


def blurred(merged: Merged, own: Array, found: Differences, below: Array) -> Merged:
    """The block with entries left open because a term may be lost in the value alone, like 1 - p in
    a softmax. In these entries the values lie `below` the last digit of the inputs, and a
    difference contradicts the subject's `own` derivative by at most half of it, or sees none. Other
    contradicted entries of the same output are left open, too: they are differences of the same
    value."""
    small = np.abs(own - found.value) <= np.abs(own) / 2
    small |= np.abs(found.value) <= found.error
    smooth = merged.kind == PointKind.SMOOTH
    off = below & smooth & contradicted(merged, own, found)
    open_ = off & np.any(off & small, axis=1, keepdims=True)
    return left_open(merged, open_, BLURRED)


def contradicted(merged: Merged, own: Array, found: Differences) -> Array:
    """Mark the entries whose difference contradicts the subject's `own` derivative: at a kink, its
    slopes on both sides."""
    kink, smooth = merged.kind == PointKind.KINK, merged.kind == PointKind.SMOOTH
    apart = np.abs(own - found.value) > found.error
    outside = np.fmax(merged.lower - own, own - merged.upper) > found.error
    return np.asarray((smooth & apart | kink & outside) & ~merged.confirmed)


def left_open(merged: Merged, entries: Array, reason: str) -> Merged:
    """The block with these entries undecided for this reason."""
    if not np.any(entries):
        return merged
    return replace(merged.at(entries, kind=PointKind.UNDECIDED, error=np.inf), reason=reason)


def rounding_only(gradient: Array, cost: Array, natural: Array, dtype: str) -> Array:
    """Mark the entries (..., n) of a gradient in `dtype` that are nothing but rounding: moves of
    `move_of` leave no digit of them, or all n are roundings of the `natural` size.

    `cost` is the change of the gradient divided by the relative move of every number.
    """
    size = np.abs(gradient)
    roundings = OPERATIONS * FORMATS[dtype].unit_roundoff * natural
    return np.asarray(
        (size <= NO_DIGITS * cost * move_of(dtype))
        | np.all(size <= roundings, axis=-1, keepdims=True)
    )


def move_of(dtype: str) -> float:
    """The relative move of numbers that shows how far it moves a gradient: so large that the
    rounding of `dtype` is negligible."""
    return float(2.0 ** -round(MOVE * FORMATS[dtype].bits))

"""Derivatives of a callable in the highest precision that it runs in, put together with
differences and with what rounding may have done to them."""

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

# Of a derivative. Two modes may be apart by 2 FIRST_ORDER_SLACK floors, so by half of what a hidden
# term leaves, which is as far as differences of blurred values may be off.
HIDDEN_PART: Residue = 0.5 / (2 * FIRST_ORDER_SLACK)
MOVE: Step = 0.375  # of the bits stay as they are: in float64, moves of 2^-20 bend no layer

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
    """What rounding does to a block, every array (m, n).

    cost      how far it moves with half an ulp of the judged dtype in every number
    noise     how far the roundings of the subject's own dtype move it, as a few ulps show
    natural   how large a derivative of this function is
    blind     values have fewer digits than their dtype, so that a difference that agrees says
              little
    scattered the same as `noise`, as longer moves show: wherever they lead, it is another number
    """

    cost: Array
    noise: Array
    natural: Array
    blind: bool = False
    scattered: Array | float = 0.0


def weighed(
    own: Array,
    found: Differences,
    rounding: Rounding,
    scale: Array,
    subject: str,
    judged: str,
    settle: Callable[[Merged], Merged] = lambda merged: merged,
) -> tuple[TruthBlock, str]:
    """The truth of a block (m, n) from the subject's `own` derivatives in the dtype `subject` and
    differences, with costs in the dtype `judged`; and why entries are undecided. `settle` decides
    on kinds before anything is confirmed."""
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
        # where the subject's own is no number, the difference is all that is known
        known = np.where(np.isfinite(own), own, found.value)
        smooth = merged.kind == PointKind.SMOOTH
        believed = merged.confirmed | (~np.isfinite(own) & smooth)
        merged = left_open(merged, believed & unseen(known, found, scale, subject), UNSEEN)
    agreed = merged.confirmed & (merged.kind == PointKind.SMOOTH)
    # where a difference agrees, what is left open is how the derivative was rounded
    error = merged.error
    if not rounding.blind:
        error = np.where(agreed, np.minimum(error, spread + 4 * inner + noise), error)
    # what differences cannot tell from zero, and small moves change altogether, is rounding that is
    # there at every move: of a sum, say, that should be 1 and is not
    none = agreed & (np.abs(own) <= found.error)
    relative = cost / FORMATS[judged].unit_roundoff
    none &= without_digits(own, relative, rounding.natural, subject)
    error = np.where(none, np.fmax(error, np.abs(own)), error)
    noise = np.where(none, np.fmax(noise, ROUNDINGS * np.abs(own)), noise)  # it is one of it
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
    """By how much another mode may be off: what hides a term from differences hides it from that,
    too; and where the difference sees the term, a mode that does so is as far off as it is."""
    part = np.where(hidden, HIDDEN_PART * np.abs(own), 0.0)
    with np.errstate(all="ignore"):
        sees = hidden & (np.abs(found.value) > found.error)
        apart = 2 * HIDDEN_PART * (np.abs(own - found.value) + found.error)
    return np.where(sees, np.fmax(part, apart), part)


def _steady(own: Array, found: Differences, rounding: Rounding, subject: str, judged: str) -> Array:
    """The cost; 0 where a few ulps move a derivative as far as a millionth does, by half of its
    digits or more: that is no rounding, but another derivative next door, and excuses nothing. One
    that may be zero is nothing but rounding, and keeps its own."""
    change = rounding.cost / FORMATS[judged].unit_roundoff * move_of(subject)
    half = FORMATS[subject].half * np.abs(own)
    with np.errstate(all="ignore"):
        jumps = rounding.noise > np.fmax(STEADY * change, half)
        jumps &= rounding.noise > ROUNDINGS * rounding.scattered
        jumps &= np.abs(own) > found.error
    return np.where(jumps, 0.0, rounding.cost)


def unseen(own: Array, found: Differences, scale: Array, subject: str) -> Array:
    """Entries (m, n) of which a difference says nothing: its bar leaves no digit of the derivative
    `own`, and is wider than half of the digits of the steepest slope around, beside which an entry
    may be as good as zero. A derivative of zero of what never changes is seen."""
    half = FORMATS[subject].half
    with np.errstate(all="ignore"):
        wide = found.error > np.fmax(A_DIGIT * np.abs(own), half * scale)
    still = (own == 0) & (found.steepest == 0)
    return np.asarray(wide & np.isfinite(found.error) & ~found.vouched & ~still)


def blurred(merged: Merged, own: Array, found: Differences, below: Array) -> Merged:
    """The block where a difference contradicts the subject's `own` derivative by no more than half
    of it, or sees none, and the values that it is taken of lie `below` the last digit of the
    inputs: there a term may be lost in the value alone, as 1 - p in a softmax, and it does not
    show. What else contradicts is left open too: it is a difference of that same value."""
    with np.errstate(all="ignore"):
        small = np.abs(own - found.value) <= np.abs(own) / 2
        small |= np.abs(found.value) <= found.error
    smooth = merged.kind == PointKind.SMOOTH
    off = below & smooth & contradicted(merged, own, found)
    open_ = off & np.any(off & small, axis=1, keepdims=True)
    return left_open(merged, open_, BLURRED)


def contradicted(merged: Merged, own: Array, found: Differences) -> Array:
    """Where a difference contradicts the subject's `own` derivative, at a kink it may be, too."""
    with np.errstate(all="ignore"):
        apart = np.abs(own - found.value) > found.error
    convicts = np.isin(merged.kind, (PointKind.SMOOTH, PointKind.KINK))
    return np.asarray(apart & convicts & ~merged.confirmed)


def left_open(merged: Merged, entries: Array, reason: str) -> Merged:
    """The block with these entries undecided."""
    if not np.any(entries):
        return merged
    return replace(merged.at(entries, kind=PointKind.UNDECIDED, error=np.inf), reason=reason)


def without_digits(gradient: Array, cost: Array, natural: Array, dtype: str) -> Array:
    """Entries (..., n) of a gradient in `dtype` that are nothing but rounding: moves of `move_of`
    leave nothing of them, or all n are roundings of the `natural` size.

    `cost` is how far the gradient moves per part of itself that every number moves.
    """
    size = np.abs(gradient)
    roundings = OPERATIONS * FORMATS[dtype].unit_roundoff * natural
    return np.asarray(
        (size <= NO_DIGITS * cost * move_of(dtype))
        | np.all(size <= roundings, axis=-1, keepdims=True)
    )


def move_of(dtype: str) -> float:
    """The part of themselves by which numbers move to see how far that moves a gradient: large
    enough for the rounding of `dtype` to vanish beside it."""
    return float(2.0 ** -round(MOVE * FORMATS[dtype].bits))

"""Measures of all entries of a block at once. Pure functions of arrays of shape (rows, columns)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Tolerance
from gradcheck_cli.domain.thresholds import (
    A_DIGIT,
    DECIDABLE,
    ERROR_BITS,
    FEW_ULPS,
    FIRST_ORDER_SLACK,
    GROWS,
    HIDDEN_ULPS,
    NOTE_BITS,
    SAME_ERROR,
    USUAL_EXPONENT,
)
from gradcheck_cli.domain.truth import PointKind, TruthBlock

Mask = npt.NDArray[np.bool_]
P = ParamSpec("P")

MEASURED = 48  # results kept for each function: enough for the small blocks of one case
SMALL = 1024  # entries of the largest Jacobian that is computed whole


def _cached_by_identity(function: Callable[P, Array]) -> Callable[P, Array]:
    """Cache the function by the identity of its arguments. Suspects, verdicts and rules ask for the
    same measures of the same arrays. Results of small blocks are read-only."""
    known: dict[tuple[int, ...], tuple[tuple[object, ...], Array]] = {}

    @wraps(function)
    def found(*args: P.args, **named: P.kwargs) -> Array:
        assert not named
        key = tuple(map(id, args))
        before = known.get(key)
        if before is not None:  # the cache keeps the arguments alive, so their ids stay theirs
            return before[1]
        made = function(*args, **named)
        if made.size <= SMALL:
            if len(known) >= MEASURED:
                del known[next(iter(known))]
            made.setflags(write=False)
            known[key] = args, made
        return made

    return found


def within_rounding(
    g: Array | float,
    truth: Array | float,
    bar: Array | float,
    fmt: FloatFormat,
    cost: Array | float = 0.0,
) -> Mask:
    """Mark the numbers whose distance from the truth is explained by the error bar of the truth, by
    a few ulps, and by a cost of rounding."""
    allowed = bar + FEW_ULPS * fmt.ulp(truth) + FIRST_ORDER_SLACK * cost
    return np.asarray(np.abs(g - truth) <= allowed)


@_cached_by_identity
def error_in_ulps(g: Array, truth: Array, fmt: FloatFormat) -> Array:
    """|g - T| in ulp(T); 0 if both round to the same infinity, nan if g or T is nan."""
    error = np.abs(g - truth) / fmt.ulp(truth)
    infinite = np.isinf(g)
    if infinite.any():
        error = np.where(infinite & (fmt.round(truth) == g), 0.0, error)
    return np.asarray(error)


@_cached_by_identity
def accepted(g: Array, block: TruthBlock, fmt: FloatFormat, tolerance: Tolerance | None) -> Mask:
    """Mark the entries that are right without considering the conditioning of the problem."""
    error = np.abs(g - block.value)
    right: Mask = error <= block.error + _tolerated(block.value, fmt, tolerance)
    if right.all() and not block.kind.any():
        return right
    right |= legitimately_flushed(g, block.value, fmt)
    # the truth does not fit the dtype: infinity is its right rounding
    right |= np.isinf(g) & (fmt.round(block.value) == g)
    if block.kind.any() or np.isnan(block.value).any():
        return _accepted_where_rough(g, block, fmt, right)
    return right


def _accepted_where_rough(g: Array, block: TruthBlock, fmt: FloatFormat, smooth: Mask) -> Mask:
    """`smooth` at smooth entries; at a kink whether g lies between the one-sided derivatives;
    whether g is finite where there is no derivative, or none is known. The cost of rounding is
    unknown next to a kink, so as many digits may be lost as go unreported elsewhere."""
    steepest = np.maximum(np.abs(block.lower), np.abs(block.upper))
    few = max(FEW_ULPS, fmt.lost(NOTE_BITS))
    slack = block.error + few * fmt.ulp(steepest)
    between = (g >= block.lower - slack) & (g <= block.upper + slack)
    kink = block.kind == PointKind.KINK
    free = np.isin(block.kind, (PointKind.UNDEFINED, PointKind.JUMP, PointKind.UNDECIDED))
    free |= np.isnan(block.value) & ~kink
    finite = np.isfinite(g)
    return np.asarray(np.where(kink, between & finite, np.where(free, finite, smooth)))


def _tolerated(truth: Array, fmt: FloatFormat, tolerance: Tolerance | None) -> Array:
    """The absolute error that the user's tolerance allows, or a few ulps without a tolerance."""
    if tolerance is not None:
        for key in (fmt.name, ""):
            if key in tolerance.ulps:
                return np.asarray(tolerance.ulps[key] * fmt.ulp(truth))
            if key in tolerance.rtol or key in tolerance.atol:
                rtol, atol = tolerance.rtol.get(key, 0.0), tolerance.atol.get(key, 0.0)
                return np.asarray(atol + rtol * np.abs(truth))
    return np.asarray(FEW_ULPS * fmt.ulp(truth))


def surely_tolerated(
    g: Array, block: TruthBlock, fmt: FloatFormat, tolerance: Tolerance | None
) -> Mask:
    """Mark the entries within the user's tolerance wherever the truth lies in its error bar."""
    if not has_tolerance(fmt, tolerance):
        return np.zeros(g.shape, dtype=np.bool_)
    farthest = np.abs(g - block.value) + block.error
    return np.asarray(farthest <= _tolerated(block.value, fmt, tolerance))


def has_tolerance(fmt: FloatFormat, tolerance: Tolerance | None) -> bool:
    """Check whether the user gave a tolerance for this dtype."""
    if tolerance is None:
        return False
    stated = {*tolerance.ulps, *tolerance.rtol, *tolerance.atol}
    return fmt.name in stated or "" in stated


def legitimately_flushed(g: Array, truth: Array, fmt: FloatFormat) -> Mask:
    """Mark the entries whose truth lies below the smallest normal number, if g is no larger than
    that number."""
    tiny = fmt.smallest_normal
    return np.asarray((np.abs(truth) < tiny) & (np.abs(g) <= tiny))


@dataclass(frozen=True, slots=True)
class Again:
    """The gradient of the same engine in another precision, shape (rows, columns)."""

    values: Array
    format: FloatFormat

    def speaks_of(self, g: Array, truth: Array) -> Mask:
        """Mark the entries for which this precision is evidence: it can hold both the truth and the
        error.

        A truth below its smallest normal number may be rounded to zero, and a small error may
        vanish. Then this precision says nothing about the other.
        """
        off = np.abs(g - truth)
        held = (truth == 0) | self._holds(np.abs(truth))
        return np.asarray(held & self._holds(off))

    def _holds(self, size: Array) -> Mask:
        return np.asarray((size >= self.format.smallest_normal) & (size <= self.format.largest))


def follows(
    g: Array,
    block: TruthBlock,
    documented: TruthBlock,
    fmt: FloatFormat,
    tolerance: Tolerance | None,
) -> Mask:
    """Mark the entries whose error the engine's documentation explains: `g` is right compared with
    `documented`, and far nearer to it than to the truth."""
    most = accepted_errors(documented, fmt, tolerance)
    left = np.abs(g - documented.value)
    explained = left <= SAME_ERROR * np.abs(g - block.value)
    right = (left <= most.conditioning) | (left <= most.rounding)
    if not has_tolerance(fmt, tolerance):
        right |= ~lossy(error_in_ulps(g, documented.value, fmt), fmt, NOTE_BITS)
    return np.asarray(explained & right)


def has_few_digits(g: Array, block: TruthBlock) -> Mask:
    """Mark the entries with few known digits where half an ulp of the inputs leaves no more of
    them."""
    farthest = np.abs(g - block.value) + block.error
    explained = farthest <= FIRST_ORDER_SLACK * block.condition
    return np.asarray(explained & (block.error <= A_DIGIT * np.abs(block.value)))


@_cached_by_identity
def too_wide(block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Mark the smooth entries whose error bar leaves more than half of the digits open.

    A truth that cannot be distinguished from zero has no digits. Its error bar is compared with the
    size of the derivative nearby.
    """
    half = 2.0 ** -(DECIDABLE * fmt.bits)
    wide = block.error > half * np.abs(block.value)
    if not wide.any():
        return np.asarray(wide)
    wide &= block.error > FEW_ULPS * fmt.ulp(block.value) + fmt.smallest_normal
    zero = (np.abs(block.value) <= block.error) & (block.error <= half * block.scale)
    return np.asarray(wide & ~zero & (block.kind == PointKind.SMOOTH))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The largest error that each rule allows, for every entry. `base`: the error bar of the truth,
    plus a few ulps or the user's tolerance. `conditioning`: the base plus the cost of rounding the
    inputs. `rounding`: the base plus the cost of rounding each operation once."""

    base: Array
    conditioning: Array
    rounding: Array


def accepted_errors(block: TruthBlock, fmt: FloatFormat, tolerance: Tolerance | None) -> Accepted:
    """The largest error that each rule explains, for every entry.

    A truth that cannot be distinguished from zero has no digits to lose. There, the rounding
    residue of terms that cancel is right if it is small compared with the derivative nearby.
    """
    slack = FIRST_ORDER_SLACK
    base = block.error + _tolerated(block.value, fmt, tolerance)
    small = block.floor <= 2.0 ** -(DECIDABLE * fmt.bits) * block.scale
    left = np.fmax(np.where(small, block.floor, block.allowance), fmt.ulp(block.scale))
    allowance = np.where(is_zero(block), left, block.allowance)
    return Accepted(base, base + slack * block.condition, base + slack * allowance)


def is_zero(block: TruthBlock) -> Mask:
    """Mark the entries whose truth cannot be distinguished from zero."""
    return np.asarray(np.abs(block.value) <= block.error)


def is_felt(
    g: Array, block: TruthBlock, ulps: Array, fmt: FloatFormat, tolerance: Tolerance | None
) -> Mask:
    """Mark the entries that lost more than a quarter of their digits, if the error is also large
    compared with the derivatives of this function, or with all other entries. An entry whose terms
    cancel has few digits at any accuracy. With a tolerance, all entries are marked."""
    if has_tolerance(fmt, tolerance):
        return np.ones(g.shape, dtype=np.bool_)
    truth = np.abs(block.value)
    size = np.fmin(block.scale, np.max(truth, initial=0.0, where=np.isfinite(truth)))
    large = np.abs(g - block.value) > fmt.lost(NOTE_BITS) * fmt.ulp(size)
    return np.asarray(large & lossy(ulps, fmt, NOTE_BITS))


def lossy(ulps: Array, fmt: FloatFormat, part: float) -> Mask:
    """Mark the entries that lost more than this part of their digits."""
    return np.asarray(np.log2(np.maximum(ulps, 1.0)) > part * fmt.bits)


def is_hidden(
    g: Array, block: TruthBlock, fmt: FloatFormat, roundings: float = HIDDEN_ULPS
) -> Mask:
    """Mark the entries whose error is at most a few roundings of the largest entry of their row or
    column: the gradient of that output, or the derivative of all outputs by that input, is right as
    a whole to the digits of the dtype.

    A zero must be negligible in both its row and its column. An optimiser that scales each entry
    separately does not move along it, so in the gradient of a scalar a zero counts however large
    the other entries are.
    """
    known = np.where(np.isfinite(block.value), np.abs(block.value), 0.0)
    row, column = (np.max(known, axis=axis, keepdims=True, initial=0.0) for axis in (1, 0))
    largest = np.where(g == 0, np.minimum(row, column), np.maximum(row, column))
    return np.asarray(np.abs(g - block.value) <= roundings * fmt.ulp(largest))


def unseen_in_float32(g: Array, block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Mark the float64 entries whose error would be lost in the last quarter of float32's
    digits."""
    if fmt.name != "float64":
        return np.zeros(g.shape, dtype=np.bool_)
    single = FORMATS["float32"]
    return is_hidden(g, block, single, single.lost(NOTE_BITS))


def only_lost_in_float64(
    g: Array, ulps: Array, single: Again, block: TruthBlock, fmt: FloatFormat
) -> Mask:
    """Mark the entries that lose more than half of their bits in float64 and almost none in
    float32.

    Rounding takes about the same number of bits from a program in both dtypes, so rounding is not
    the cause: a constant or a step of the derivative has only the digits of float32, or g is the
    derivative of a slightly different function. If one entry of the block shows this, entries that
    lost more than a quarter are marked as well. Two kinds of entries do not count: float32 cannot
    hold the truth, or the error is within the cost of rounding each operation, because terms may
    cancel exactly.
    """
    in_float32 = error_in_ulps(single.values, block.value, single.format)
    here, there = np.log2(np.maximum(ulps, 1.0)), np.log2(np.maximum(in_float32, 1.0))
    few = there <= NOTE_BITS * single.format.bits
    few &= single.speaks_of(g, block.value) & (block.value != 0)
    cost = np.where(np.isfinite(block.floor), block.floor, 0.0)
    few &= ~(np.abs(g - block.value) <= cost)
    shown = np.any(few & (here > ERROR_BITS * fmt.bits))
    return np.asarray(shown & few & (here > NOTE_BITS * fmt.bits))


def grows_with_precision(g: Array, block: TruthBlock, wide: Again | None, fmt: FloatFormat) -> Mask:
    """Mark the entries that lost more than half of their bits in two precisions, if the error is
    larger in the finer one and exceeds the cost of rounding each operation there. Rounding errors
    shrink. A zero in the coarser precision does not count: it may have absorbed what the finer one
    keeps."""
    if wide is None or wide.format is fmt:
        return np.zeros(g.shape, dtype=np.bool_)
    fine, coarse = sorted((Again(g, fmt), wide), key=lambda run: run.format.unit_roundoff)
    grows = (coarse.values != 0) & wide.speaks_of(g, block.value)
    for run in (fine, coarse):
        ulps = error_in_ulps(run.values, block.value, run.format)
        grows &= np.isfinite(ulps) & lossy(ulps, run.format, ERROR_BITS)
    error, before = (np.abs(run.values - block.value) for run in (fine, coarse))
    beyond = error > block.error + finest_cost(wide, block, fmt)
    return np.asarray(grows & beyond & (error >= GROWS * before))


def beyond_rounding(wide: Again, block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Mark the entries that rounding in the finer precision cannot turn into zero."""
    return np.asarray(finest_cost(wide, block, fmt) < np.abs(block.value))


def finest_cost(wide: Again, block: TruthBlock, fmt: FloatFormat) -> Array:
    """The cost of rounding each operation once in the finer of two precisions."""
    finer = min(wide.format.unit_roundoff / fmt.unit_roundoff, 1.0)
    return np.asarray(FIRST_ORDER_SLACK * finer * block.floor)


def finest_rounding(wide: Again, steepest: Array | float, fmt: FloatFormat) -> Array:
    """The cost of a few roundings, in the finer of two precisions, at the size of the largest
    derivative of an output. A framework's rule may round more than the rule of our table does:
    PyTorch's tangent of a maximum is b' + (a' > b') (a' - b'), which absorbs a' beside b'."""
    finer = wide.format if wide.format.bits > fmt.bits else fmt
    return np.asarray(HIDDEN_ULPS * finer.ulp(np.asarray(steepest)))


def of_natural_size(wide: Again, block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Mark the entries that differences in the finer precision can see, and that are too large to
    be absorbed or to underflow there: not small compared with the derivative nearby or with 1, a
    common term of derivatives (1 - y^2), and within the usual range of exponents."""
    finer = wide.format if wide.format.bits > fmt.bits else fmt
    size = np.abs(block.value)
    felt = size >= 2.0 ** -(DECIDABLE * finer.bits) * np.fmax(block.scale, 1.0)
    seen = ~block.certified | (np.abs(block.difference) > block.difference_error)
    usual = 2.0 ** (finer.max_exponent * USUAL_EXPONENT)
    return np.asarray(felt & (size <= usual) & seen)


def loses_little(
    g: Array, block: TruthBlock, wide: Again | None, fmt: FloatFormat, tolerance: Tolerance | None
) -> Mask:
    """Mark the entries that lost less than a quarter of their digits, with a different error in
    another precision. Without a run in another precision, `g` rounded to float32 stands in for
    it."""
    little = ~lossy(error_in_ulps(g, block.value, fmt), fmt, NOTE_BITS)
    if has_tolerance(fmt, tolerance):
        return np.zeros_like(little)
    little &= np.isfinite(g) & (g != 0) & (block.kind == PointKind.SMOOTH) & block.certified
    if wide is None:
        wide = Again(FORMATS["float32"].round(g), FORMATS["float32"])
    return np.asarray(little & ~too_wide(block, fmt) & ~repeats_in(g, block, wide))


def repeats_in(g: Array, block: TruthBlock, wide: Again | None, cost: Array | float = 0.0) -> Mask:
    """Mark the entries whose error recurs in another precision, so that rounding is not the cause.

    There are two proofs. First, the engine returns the same wrong number in both precisions, with
    an error above `cost`, the cost of rounding in the finer one. (NumPy inverts a float32 matrix in
    float64, so the same rounding error appears in both.) A cost that is not finite is unknown and
    explains nothing. A repeated zero does not count: float64 may absorb what float32 absorbs.
    Second, the derivative that the user wrote differs from the truth in float64, and the engine
    follows it.
    """
    same = SAME_ERROR * np.abs(g - block.value)  # a truth beyond float64 is infinite
    change = np.abs(block.stated - block.value)
    stated = np.isfinite(change) & (change > block.error) & (change >= same)
    if wide is None:
        return np.asarray(stated)
    again, speaks = wide.values, wide.speaks_of(g, block.value)
    still = np.abs(again - block.value) >= same
    repeated = still & np.isfinite(again) & np.isfinite(block.value) & (again != 0)
    repeated &= speaks & (np.abs(g - again) <= same)
    known = np.where(np.isfinite(cost), cost, 0.0)
    repeated &= np.abs(g - block.value) > block.error + known
    follows = ~speaks | ~np.isfinite(again) | still
    return np.asarray(repeated | (stated & follows))

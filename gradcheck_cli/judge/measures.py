"""Measures of all entries of a block at once. Pure: arrays in, arrays out, all of shape (rows,
columns)."""

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

MEASURED = 48  # measures of small blocks that are kept: those of one case, of each kind
SMALL = 1024  # entries, as many as a Jacobian has that is computed whole


def _once(function: Callable[P, Array]) -> Callable[P, Array]:
    """The function, which measures the very same arrays once: whoever looks for what is suspect,
    whether that is settled, and by which rule it passes, asks the same. The result is for reading
    alone."""
    known: dict[tuple[int, ...], tuple[tuple[object, ...], Array]] = {}

    @wraps(function)
    def found(*args: P.args, **named: P.kwargs) -> Array:
        assert not named
        key = tuple(map(id, args))
        before = known.get(key)
        if before is not None:  # they live as long as they are here, so no others have their ids
            return before[1]
        made = function(*args, **named)
        if made.size <= SMALL:
            if len(known) >= MEASURED:
                del known[next(iter(known))]
            made.setflags(write=False)
            known[key] = args, made
        return made

    return found


@_once
def error_in_ulps(g: Array, truth: Array, fmt: FloatFormat) -> Array:
    """|g - T| in ulp(T); 0 where both are the same infinity, nan where either is not a number."""
    with np.errstate(all="ignore"):
        error = np.abs(g - truth) / fmt.ulp(truth)
    infinite = np.isinf(g)
    if infinite.any():
        error = np.where(infinite & (fmt.round(truth) == g), 0.0, error)
    return np.asarray(error)


@_once
def accepted(g: Array, block: TruthBlock, fmt: FloatFormat, tolerance: Tolerance | None) -> Mask:
    """Entries that are right, without asking how well conditioned the problem is."""
    with np.errstate(all="ignore"):
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
    """`smooth` at smooth entries; at kinks what lies between the one-sided derivatives; any number
    where there is no derivative, or none is known. Next to a kink nobody knows what rounding costs:
    as many digits may be lost as nothing is said of elsewhere."""
    with np.errstate(all="ignore"):
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
    """What the user accepts, or a few ulps."""
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
    """Entries within what the user accepts, wherever in its bar the truth is."""
    if not has_tolerance(fmt, tolerance):
        return np.zeros(g.shape, dtype=np.bool_)
    with np.errstate(all="ignore"):
        farthest = np.abs(g - block.value) + block.error
        return np.asarray(farthest <= _tolerated(block.value, fmt, tolerance))


def has_tolerance(fmt: FloatFormat, tolerance: Tolerance | None) -> bool:
    """Whether the user said what is accepted in this dtype."""
    if tolerance is None:
        return False
    stated = {*tolerance.ulps, *tolerance.rtol, *tolerance.atol}
    return fmt.name in stated or "" in stated


def legitimately_flushed(g: Array, truth: Array, fmt: FloatFormat) -> Mask:
    """The truth is below the smallest normal number, and g is zero or subnormal (or that
    number)."""
    tiny = fmt.smallest_normal
    return np.asarray((np.abs(truth) < tiny) & (np.abs(g) <= tiny))


@dataclass(frozen=True, slots=True)
class Again:
    """The gradient by the same engine in another precision, (rows, columns)."""

    values: Array
    format: FloatFormat

    def speaks_of(self, g: Array, truth: Array) -> Mask:
        """Entries of which this precision is evidence: it can hold the truth and what is off.

        A truth below its normal numbers may be rounded to zero there, or an error to nothing, and
        neither says anything about another precision.
        """
        with np.errstate(all="ignore"):
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
    """Entries whose error is explained by what the engine's documentation says: beside that they
    would be right, and they are far nearer to it than to the truth."""
    most = accepted_errors(documented, fmt, tolerance)
    with np.errstate(all="ignore"):
        left = np.abs(g - documented.value)
        explained = left <= SAME_ERROR * np.abs(g - block.value)
        right = (left <= most.conditioning) | (left <= most.rounding)
    if not has_tolerance(fmt, tolerance):
        right |= ~lossy(error_in_ulps(g, documented.value, fmt), fmt, NOTE_BITS)
    return np.asarray(explained & right)


def has_few_digits(g: Array, block: TruthBlock) -> Mask:
    """Entries of which few digits are known, but half an ulp of the inputs leaves no more."""
    with np.errstate(all="ignore"):
        farthest = np.abs(g - block.value) + block.error
        explained = farthest <= FIRST_ORDER_SLACK * block.condition
        return np.asarray(explained & (block.error <= A_DIGIT * np.abs(block.value)))


@_once
def too_wide(block: TruthBlock, fmt: FloatFormat) -> Mask:
    """The error bar of a smooth entry leaves more than half of the digits open.

    Where the truth cannot be distinguished from zero, digits mean nothing; there the bar is
    measured against how large the derivative is nearby."""
    half = 2.0 ** -(DECIDABLE * fmt.bits)
    wide = block.error > half * np.abs(block.value)
    if not wide.any():
        return np.asarray(wide)
    wide &= block.error > FEW_ULPS * fmt.ulp(block.value) + fmt.smallest_normal
    zero = (np.abs(block.value) <= block.error) & (block.error <= half * block.scale)
    return np.asarray(wide & ~zero & (block.kind == PointKind.SMOOTH))


@dataclass(frozen=True, slots=True)
class Accepted:
    """How large an error each rule lets pass, for every entry: the error bar of the truth and a few
    ulps or what the user accepts; that and what rounding the inputs does; that and what rounding
    each operation once may cost."""

    base: Array
    conditioning: Array
    rounding: Array


def accepted_errors(block: TruthBlock, fmt: FloatFormat, tolerance: Tolerance | None) -> Accepted:
    """The largest errors that are explained.

    Where the truth cannot be distinguished from zero, there are no digits to lose: what rounding
    leaves of terms that cancel is right as long as it is small beside the derivative nearby."""
    slack = FIRST_ORDER_SLACK
    with np.errstate(all="ignore"):
        base = block.error + _tolerated(block.value, fmt, tolerance)
        small = block.floor <= 2.0 ** -(DECIDABLE * fmt.bits) * block.scale
        left = np.fmax(np.where(small, block.floor, block.allowance), fmt.ulp(block.scale))
        allowance = np.where(is_zero(block), left, block.allowance)
        return Accepted(base, base + slack * block.condition, base + slack * allowance)


def is_zero(block: TruthBlock) -> Mask:
    """Entries whose truth cannot be distinguished from zero."""
    return np.asarray(np.abs(block.value) <= block.error)


def is_felt(
    g: Array, block: TruthBlock, ulps: Array, fmt: FloatFormat, tolerance: Tolerance | None
) -> Mask:
    """Entries that lost more than a quarter of their digits, and whose error is large beside the
    derivatives of this function, or beside all other entries, too: an entry whose terms cancel has
    few digits at any accuracy. With a tolerance, all."""
    if has_tolerance(fmt, tolerance):
        return np.ones(g.shape, dtype=np.bool_)
    with np.errstate(all="ignore"):
        truth = np.abs(block.value)
        size = np.fmin(block.scale, np.max(truth, initial=0.0, where=np.isfinite(truth)))
        large = np.abs(g - block.value) > fmt.lost(NOTE_BITS) * fmt.ulp(size)
        return np.asarray(large & lossy(ulps, fmt, NOTE_BITS))


def lossy(ulps: Array, fmt: FloatFormat, part: float) -> Mask:
    """Entries that lost more than this part of their digits."""
    return np.asarray(np.log2(np.maximum(ulps, 1.0)) > part * fmt.bits)


def is_hidden(
    g: Array, block: TruthBlock, fmt: FloatFormat, roundings: float = HIDDEN_ULPS
) -> Mask:
    """Entries whose error is a few roundings of the largest entry of their row or column: the
    gradient of that output, or what that input does to all outputs, is right as a whole to the
    digits of the dtype.

    A zero has to be nothing in both. It is no noise: an optimiser that scales each entry by itself
    stands still there, so in the gradient of a scalar it counts however large the others are.
    """
    known = np.where(np.isfinite(block.value), np.abs(block.value), 0.0)
    row, column = (np.max(known, axis=axis, keepdims=True, initial=0.0) for axis in (1, 0))
    largest = np.where(g == 0, np.minimum(row, column), np.maximum(row, column))
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(g - block.value) <= roundings * fmt.ulp(largest))


def unseen_in_float32(g: Array, block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Entries of float64 whose error would be lost in the last quarter of float32's digits."""
    if fmt.name != "float64":
        return np.zeros(g.shape, dtype=np.bool_)
    single = FORMATS["float32"]
    return is_hidden(g, block, single, single.lost(NOTE_BITS))


def only_off_here(
    g: Array, ulps: Array, single: Again, block: TruthBlock, fmt: FloatFormat
) -> Mask:
    """Entries that lose more than half of their bits in float64, and next to none in float32.

    Rounding takes about as many bits of one program in each, so this is no rounding: a constant or
    a step of the derivative has the digits of float32 only, or it is the derivative of something
    that is nearly the same. Where one entry shows it, others of the block that lost more than a
    quarter did so for the same reason. Only entries count whose truth float32 can hold, and whose
    error is more than what rounding each operation may cost: terms that cancel may do so exactly.
    """
    in_float32 = error_in_ulps(single.values, block.value, single.format)
    with np.errstate(all="ignore"):
        here, there = np.log2(np.maximum(ulps, 1.0)), np.log2(np.maximum(in_float32, 1.0))
        few = there <= NOTE_BITS * single.format.bits
        few &= single.speaks_of(g, block.value) & (block.value != 0)
        cost = np.where(np.isfinite(block.floor), block.floor, 0.0)
        few &= ~(np.abs(g - block.value) <= cost)
        shown = np.any(few & (here > ERROR_BITS * fmt.bits))
        return np.asarray(shown & few & (here > NOTE_BITS * fmt.bits))


def grows_with_precision(g: Array, block: TruthBlock, wide: Again | None, fmt: FloatFormat) -> Mask:
    """Entries that lost more than half of their bits in two precisions, with a larger error in the
    finer one, and there a larger error than rounding each operation may cost: rounding errors
    shrink. A zero does not count: the coarser precision may have absorbed what the finer one sees.
    """
    if wide is None or wide.format is fmt:
        return np.zeros(g.shape, dtype=np.bool_)
    fine, coarse = sorted((Again(g, fmt), wide), key=lambda one: one.format.unit_roundoff)
    grows = (coarse.values != 0) & wide.speaks_of(g, block.value)
    for one in (fine, coarse):
        ulps = error_in_ulps(one.values, block.value, one.format)
        grows &= np.isfinite(ulps) & lossy(ulps, one.format, ERROR_BITS)
    with np.errstate(all="ignore"):
        error, before = (np.abs(one.values - block.value) for one in (fine, coarse))
        beyond = error > block.error + finest_cost(wide, block, fmt)
        return np.asarray(grows & beyond & (error >= GROWS * before))


def beyond_rounding(wide: Again, block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Entries that the roundings of the finer precision cannot make zero."""
    with np.errstate(all="ignore"):
        return np.asarray(finest_cost(wide, block, fmt) < np.abs(block.value))


def finest_cost(wide: Again, block: TruthBlock, fmt: FloatFormat) -> Array:
    """What rounding each operation once may cost in the finer of two precisions."""
    finer = min(wide.format.unit_roundoff / fmt.unit_roundoff, 1.0)
    return np.asarray(FIRST_ORDER_SLACK * finer * block.floor)


def of_natural_size(wide: Again, block: TruthBlock, fmt: FloatFormat) -> Mask:
    """Entries that differences of the finer precision see, and that are far from all that it could
    absorb or let underflow: not small beside the derivative nearby or beside 1, with which
    derivatives are written (1 - y^2), and of a usual exponent."""
    finer = wide.format if wide.format.bits > fmt.bits else fmt
    size = np.abs(block.value)
    with np.errstate(all="ignore"):
        felt = size >= 2.0 ** -(DECIDABLE * finer.bits) * np.fmax(block.scale, 1.0)
        seen = ~block.certified | (np.abs(block.difference) > block.difference_error)
    usual = 2.0 ** (finer.max_exponent * USUAL_EXPONENT)
    return np.asarray(felt & (size <= usual) & seen)


def loses_little(
    g: Array, block: TruthBlock, wide: Again | None, fmt: FloatFormat, tolerance: Tolerance | None
) -> Mask:
    """Entries that lost less than a quarter of their digits, with another error in another
    precision. Where none was looked at, that is so if no number of float32 has the same error."""
    little = ~lossy(error_in_ulps(g, block.value, fmt), fmt, NOTE_BITS)
    if has_tolerance(fmt, tolerance):
        return np.zeros_like(little)
    little &= np.isfinite(g) & (g != 0) & (block.kind == PointKind.SMOOTH) & block.certified
    if wide is None:
        wide = Again(FORMATS["float32"].round(g), FORMATS["float32"])
    return np.asarray(little & ~too_wide(block, fmt) & ~repeats_in(g, block, wide))


def repeats_in(g: Array, block: TruthBlock, wide: Again | None, cost: Array | float = 0.0) -> Mask:
    """Entries whose error does not come from rounding: it is there in another precision too.

    Two proofs: the engine gives the same wrong number in both precisions, or the derivative that
    the user stated differs from the truth in float64, and the engine follows it. The first holds
    for errors above `cost`, what the roundings of the finer precision may do: NumPy inverts a
    matrix of float32 in float64, so the same rounding error appears in both. A cost that is not
    finite is unknown and explains nothing. Zero does not count there either: what is absorbed in
    float32 may be absorbed in float64.
    """
    with np.errstate(all="ignore"):  # a truth beyond any float64 is an infinity
        same = SAME_ERROR * np.abs(g - block.value)
        change = np.abs(block.stated - block.value)
        stated = np.isfinite(change) & (change > block.error) & (change >= same)
    if wide is None:
        return np.asarray(stated)
    again, speaks = wide.values, wide.speaks_of(g, block.value)
    with np.errstate(all="ignore"):
        still = np.abs(again - block.value) >= same
        repeated = still & np.isfinite(again) & np.isfinite(block.value) & (again != 0)
        repeated &= speaks & (np.abs(g - again) <= same)
        known = np.where(np.isfinite(cost), cost, 0.0)
        repeated &= np.abs(g - block.value) > block.error + known
        follows = ~speaks | ~np.isfinite(again) | still
    return np.asarray(repeated | (stated & follows))

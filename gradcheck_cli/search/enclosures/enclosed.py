"""Enclosures: for each number of a program over a box of inputs, an exact range and an error bound.

Each array has one entry for each box and element. For all inputs in the box,

    lo <= v <= hi                        v is the result of exact arithmetic
    |computed - v| <= d |v| + a          computed is the result of any engine (`Rounding`)

`bad`: the computed number may be nan or infinite. The bound d |v| + a holds where it is finite; the
bound is infinite if nothing is known. A result of a bad argument has no bound, with few exceptions.
`undefined`: in exact arithmetic the number, or a derivative on the way to it, may have no value.
`broken`: the computed number is nan or infinite at every point of the box. `overflows`: the number
is bad, but never nan. Where its error is larger than d |v| + a, the computed number and v have the
same sign and are both at least `Rounding.huge`, so both reciprocals are almost 0. `flushed`: a part
of a that counts only where the computed number is 0, because the engine replaces subnormal numbers
by 0. `firm`: what a is where |v| is at least `floor`. There, the computed number is not flushed.
Both are infinite if unknown. `gap`: if a is 0, either v is 0, or v and the computed number are at
least this large. Numbers of a dtype have such a gap, and so do their differences and products.
Ranges are float64 and are widened after each operation; the bounds d and a are increased.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.domain.records import dataclass

Bounds = npt.NDArray[Any]
Flags = npt.NDArray[Any]

_OUT = 2.0**-49
"""Relative. NumPy's own functions are within 4 ulps of float64, and a range has few operations."""
_MOST = float(np.finfo(np.float64).max)
_LEAST = 1e-320  # absolute: what a range in float64 loses by underflow
_FLOAT32_MOST = float(np.finfo(np.float32).max)
_FLOAT32_LEAST = float(np.finfo(np.float32).smallest_normal)
_UP = 1 + 2.0**-45  # for bounds of errors, after a dozen roundings to nearest
LIBRARY_ULPS = 4
"""ulps. What a proof assumes of an engine's elementary functions."""
ROOT_ULPS = 1
"""ulps. What it assumes of square roots: of all float32 numbers in [1, 4), those of PyTorch are off
by 0.75 at most, those of JAX and TensorFlow are rounded to nearest."""


@dataclass(frozen=True, slots=True)
class Enclosed:
    lo: Bounds
    hi: Bounds
    d: Bounds
    a: Bounds
    bad: Flags
    undefined: Flags
    broken: Flags | bool = False
    overflows: Flags | bool = False
    flushed: Bounds | float = 0.0
    gap: Bounds | float = 0.0
    floor: Bounds | float = np.inf
    firm: Bounds | float = np.inf

    @property
    def parts(self) -> tuple[Bounds | Flags, ...]:
        """The arrays, in the order of the constructor."""
        shape = np.shape(self.bad)
        more = self.broken, self.overflows, self.flushed, self.gap, self.floor, self.firm
        last = (np.broadcast_to(x, shape) for x in more)
        return self.lo, self.hi, self.d, self.a, self.bad, self.undefined, *last

    @property
    def most(self) -> Bounds:
        """The largest |v|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def least(self) -> Bounds:
        """The smallest |v|."""
        inside = (self.lo <= 0) & (self.hi >= 0)
        return np.where(inside, 0.0, np.minimum(np.abs(self.lo), np.abs(self.hi)))

    @property
    def error(self) -> Bounds:
        """The largest |computed - v|."""
        most = self.most
        part = np.where((self.d == 0) | (most == 0), 0.0, self.d * most)
        return up(part + self.a)

    @property
    def relative(self) -> Bounds:
        """The largest |computed - v| / |v|; inf where v may be 0."""
        part = np.where(self.a == 0, 0.0, self.a / self.least)
        return up(self.d + part)

    @property
    def away(self) -> Bounds:
        """The least size of the exact and of the computed number where it is not 0; inf if it
        always is."""
        inside = self.least * np.maximum(1 - self.d, 0.0)
        found = np.where(self.a == 0, np.maximum(inside, self.gap), 0.0)
        return np.where((self.most == 0) & (self.a == 0), np.inf, found) * (1 - 2.0**-40)

    @property
    def unless_0(self) -> Enclosed:
        """The enclosure of the computed number if it was not flushed to 0."""
        return replace(self, a=np.maximum(self.a - self.flushed, 0.0), flushed=0.0)

    @property
    def above(self) -> tuple[Bounds | float, Bounds | float]:
        """`floor` and `firm`; 0 and a if no floor is known."""
        known = np.isfinite(self.floor)
        if not np.any(known):
            return 0.0, self.a
        firm = np.where(known, np.minimum(self.firm, self.a), self.a)
        return np.where(known, self.floor, 0.0), firm

    def map(self, function: Any) -> Enclosed:
        """The enclosure with each array moved by the function, such as a reshape."""
        return Enclosed(*(function(part) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Mask:
    """Booleans over a box: the possible results of exact arithmetic, the possible results of the
    engine, and whether both agree at each point. `tie`: two compared numbers may be equal.
    `undefined`: one of them may have no value."""

    true: Flags
    false: Flags
    computed_true: Flags
    computed_false: Flags
    agree: Flags
    tie: Flags
    undefined: Flags

    @property
    def parts(self) -> tuple[Flags, ...]:
        """The arrays, in the order of the constructor."""
        computed = self.computed_true, self.computed_false
        return self.true, self.false, *computed, self.agree, self.tie, self.undefined

    def map(self, function: Any) -> Mask:
        return Mask(*(function(part) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Places:
    """Indices along an axis over a box: which of the n elements (last axis) may stand at a place,
    in exact arithmetic (`may`) and as computed. `agree`: at each point, the computed order is also
    an order of the exact numbers. `along`: the axis along which an element stands at one place at
    most; `sure` marks the elements (last axis) that certainly stand at one. Both are None if
    unknown. `bad`: nothing is known about the order."""

    may: Flags
    computed: Flags
    agree: Flags
    bad: Flags
    along: int | None
    sure: Flags | None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.may.shape[:-1])

    def map(self, function: Any) -> Places:
        def apart(flags: Flags) -> Flags:
            every = range(flags.shape[-1])
            return np.stack([function(flags[..., i]) for i in every], axis=-1)

        rows = function(self.agree), function(self.bad)
        return Places(apart(self.may), apart(self.computed), *rows, None, None)


@dataclass(frozen=True, slots=True)
class Rounding:
    """How an engine rounds: to nearest, with unit roundoff `unit`. The absolute error of an
    underflow is at most `least`, and at most `library_least` in a library function.
    `flush`: subnormal arguments and results are replaced by 0. `loose`: a function of a library
    may round several times. `inverts`: a division may be a multiplication by a rounded reciprocal.
    `again`: a number may be computed again, with other roundings, for each use, unless it is kept.
    `exact`: nothing is rounded; only ranges are computed. `is_measured`: `library` was measured of
    the function of this kernel. `pieces`: where its argument is between two numbers, it is better,
    within the third one. `steeper`: what a power is worse for each 1 of its exponent."""

    unit: float
    largest: float
    least: float
    library_least: float
    library: float  # relative error of a function of a library
    normal: float  # the smallest normal number
    flush: bool = False
    loose: bool = False
    inverts: bool = False
    again: bool = False
    exact: bool = False
    is_measured: bool = False
    pieces: tuple[tuple[float, float, float], ...] = ()
    steeper: float = 0.0

    def with_library_ulps(self, ulps: tuple[float, float] | None) -> Rounding:
        """The rounding of a kernel whose library functions are within `ulps` in float32 and
        float64. In half precision, the final rounding is much larger than this."""
        if ulps is None or self.unit > 2.0**-24:
            return self
        return replace(self, library=2 * self.unit * ulps[self.unit < 2.0**-24])

    def measured_over(self, x: Enclosed) -> Bounds:
        """What was measured for this argument; infinite for others."""
        error = np.where(x.bad, np.inf, x.error)
        low, high = x.lo - error, x.hi + error
        found = np.full(low.shape, np.inf)
        for least, most, within in self.pieces:
            found = np.where((low >= least) & (high <= most), np.minimum(found, within), found)
        return found

    def library_over(self, x: Enclosed) -> Bounds | float:
        """`library` for this argument."""
        return np.minimum(self.measured_over(x), self.library) if self.pieces else self.library

    @property
    def overflow(self) -> float:
        """The size above which a number is infinite on every engine. Kernels of narrow formats
        compute in the range of float32."""
        return max(self.largest, _FLOAT32_MOST) * (1 + 2 * self.unit)

    @property
    def huge(self) -> float:
        """A lower bound on what overflows by its own rounding, with a factor of 2 to spare
        (`rounded`)."""
        return self.largest / 4

    def flushes(self, least: Bounds) -> Bounds:
        """The part of an underflow error that counts only if the result is 0."""
        if not self.flush:
            return np.zeros(np.shape(least))
        return np.maximum(least * (1 - 2.0**-40) - self.coarse, 0.0)

    @property
    def coarse(self) -> float:
        """The largest rounding error of a subnormal number."""
        return 2 * LIBRARY_ULPS * self.subnormal

    @property
    def subnormal(self) -> float:
        """The smallest subnormal number of the dtype."""
        return 2 * self.unit * self.normal

    @property
    def approximation(self) -> float:
        """The error that a function may have in addition to `library`: TensorFlow approximates the
        sigmoid and the arc sine of float32 by quotients of polynomials, with errors of 4.6 ulps. In
        half precision they are within `library` at every number."""
        rough = self.loose and self.unit < 2.0**-23 and not self.is_measured
        return 3 * self.unit if rough else 0.0

    @property
    def quotient(self) -> float:
        """The relative error of a quotient. Compilers may multiply by the rounded reciprocal
        instead."""
        return 2 * self.unit + self.unit**2 if self.inverts else self.unit

    @classmethod
    def of(cls, fmt: FloatFormat, loose: bool, again: bool = False) -> Rounding:
        """A loose engine flushes subnormal numbers of the format in which it computes. Subnormal
        numbers of float16 are normal numbers of float32."""
        normal, u = fmt.smallest_normal, fmt.unit_roundoff
        flush = loose and normal < _FLOAT32_LEAST * 2
        narrow = fmt.bits < 24 and not loose  # is computed in float32, and rounded once
        library = u + 2 * LIBRARY_ULPS * 2.0**-24 if narrow else 2 * LIBRARY_ULPS * u
        least = normal if flush else max(fmt.smallest_subnormal, 5e-324)
        ulps = 2 * LIBRARY_ULPS
        library_least = least + ulps * 2.0**-149 if narrow else ulps * least
        library_least = normal if flush else library_least
        return cls(
            u, fmt.largest, least, library_least, library, normal, flush, loose, loose, again
        )


def up(bound: Bounds) -> Bounds:
    """The bound, increased by more than the rounding errors of its own computation."""
    return bound * _UP


def exact(values: Any) -> Enclosed:
    """Numbers that the engine represents exactly."""
    return between(values, values)


def between(lo: Any, hi: Any) -> Enclosed:
    """Any number from lo to hi, which the engine represents exactly."""
    low, high = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
    zero, no = np.zeros(low.shape), np.zeros(low.shape, np.bool_)
    return Enclosed(low, high, zero, zero, no, no)


def literals(rounding: Rounding, values: Any) -> Enclosed:
    """Constants of a kernel. A number that the dtype does not have is rounded to it, and may
    already have been rounded to float64."""
    found = exact(values)
    size = np.abs(found.lo)
    whole = np.frexp(found.lo)[0] / rounding.unit
    held = (whole == np.rint(whole)) & (size >= rounding.normal) & (size <= rounding.largest)
    held |= found.lo == 0
    off = np.where(held, 0.0, rounding.unit + 2.0**-52)
    slop = np.where(held | np.isinf(size), 0.0, size * 2.0**-51)
    a = np.where(held | (size >= rounding.normal), 0.0, rounding.least)
    lo, hi = found.lo - slop, found.hi + slop
    beyond = ~(size <= rounding.largest)
    return replace(found, lo=lo, hi=hi, d=off, a=np.where(beyond, np.inf, a), bad=beyond)


class Exceeds(Exception):
    """An operation has no rule. The message names it."""


def outward(lo: Bounds, hi: Bounds) -> tuple[Bounds, Bounds]:
    """The range, widened by the rounding errors of float64; all numbers if an end is nan."""
    low = lo - np.abs(lo) * _OUT - _LEAST
    high = hi + np.abs(hi) * _OUT + _LEAST
    low = np.where(np.isnan(lo) | (lo == -np.inf), -np.inf, np.fmin(low, _MOST * (1 - _OUT)))
    high = np.where(np.isnan(hi) | (hi == np.inf), np.inf, np.fmax(high, -_MOST * (1 - _OUT)))
    return low, high


def rounded(
    rounding: Rounding,
    result: Enclosed,
    *,
    relative: Bounds | float | None = None,
    in_ulps: bool = False,
    least: Bounds | float | None = None,
    above: Flags | bool = False,
    below: Flags | bool = False,
    plain: Flags | bool = False,
    near: bool = False,
) -> Enclosed:
    """The result of an operation after the engine has rounded it. `result` has the error and the
    gap before rounding; its arrays need only broadcast. The rounding error is `relative` (default:
    once to nearest), plus `least` for underflow. `in_ulps`: instead, `relative` of the power of two
    below the result. The range is widened, but stays `above` 0 or `below` it where these say so.
    `plain`: the operation rounds, overflows and is flushed only at its end. If its arguments are
    not bad, a result beyond the dtype is then an infinity of the right sign: |v| (1 + d) + a >
    `largest` with d < 1/2 and a < `largest` / 8 makes |v| more than half of `largest`, and the
    error less than |v|. What is flushed, is below the smallest normal number N before it is
    rounded, to nearest: then |v| (1 - d) - a is below N. A function of a library may itself be off
    by `relative`, unless it returns small numbers as they are, `near` its zero."""
    if rounding.exact:
        return ranged(result, above, below)
    u = rounding.unit if relative is None else relative
    eta = rounding.least if least is None else least
    parts = result.lo, result.hi, result.d, result.a, result.bad, result.undefined
    lo, hi, d, a, bad, undefined = np.broadcast_arrays(*parts)
    shape = lo.shape
    lo, hi = outward(lo, hi)
    lo = np.where(above, np.maximum(lo, 0.0), lo)
    hi = np.where(below, np.minimum(hi, 0.0), hi)
    by = u + d * u
    if in_ulps:
        size, least_size = (f(np.abs(lo), np.abs(hi)) for f in (np.maximum, np.minimum))
        step = u * power_of_two_below(up(size * (1 + d) + a))
        by = np.where((lo > 0) | (hi < 0), np.fmin(by, step / least_size), by)
    d = np.broadcast_to(up(d + by), shape)
    ends = np.minimum(np.abs(lo), np.abs(hi)) * (1 - np.minimum(d, 1)) - a
    least_normal = (1 + 2.0**-40 if plain else 2) * rounding.normal
    normal = ((lo > 0) | (hi < 0)) & (ends * (1 - 2.0**-40) > least_normal)
    gap = np.where(a == 0, result.gap, 0.0)
    normal |= gap * (1 - 2.0**-40) > least_normal
    most = np.maximum(np.abs(lo), np.abs(hi))
    # a result that is flushed only at its end is 0 then, or subnormal with fewer digits
    lost = np.where(plain, np.minimum(eta, most + rounding.coarse), eta)
    lost = np.where(normal, 0.0, lost)
    a = np.broadcast_to(up(a * (1 + u) + lost), shape)
    known = up(most * (1 + d) + a) <= rounding.largest
    beyond = ((lo > 0) | (hi < 0)) & (ends * (1 - 2.0**-40) > rounding.overflow)
    flushed = np.where(plain & ~bad, rounding.flushes(lost), 0.0)
    how = 0.0 if near else u, normal, plain & ~bad, near
    kept = _above_floor(rounding, result, *how) if rounding.flush else ()
    overflows = plain & ~bad & ~known & (d < 0.5) & (a < rounding.largest / 8)
    d, a = np.where(bad, np.inf, d), np.where(bad, np.inf, a)
    gap = np.where(a == 0, np.broadcast_to(gap, shape) * (1 - 2 * u - 2.0**-40), 0.0)
    broken, bad = beyond & ~bad, bad | ~known
    return Enclosed(lo, hi, d, a, bad, undefined, broken, overflows, flushed, gap, *kept)


def _above_floor(
    rounding: Rounding,
    result: Enclosed,
    own: Bounds | float,
    normal: Flags,
    plain: Flags,
    near: bool,
) -> tuple[Bounds, Bounds]:
    """`floor` and `firm` of a result that is flushed at its end, unless it is `normal`, or a
    function that returns small arguments that are not flushed as they are (`near`). `own` is its
    relative rounding error."""
    floor, firm = result.above
    own = np.where(own <= rounding.unit, 0.0, own)
    end = (rounding.normal + firm) / ((1 - result.d) * (1 - own))
    end = np.where((result.d == 0) & (firm == 0) & (own == 0), rounding.normal, up(end))
    end = np.where(normal | (near & np.isfinite(result.floor)), floor, np.maximum(floor, end))
    known = plain & (result.d < 0.5) & (own < 0.5) & np.isfinite(end)
    firm = up(np.asarray(firm * 2.0))  # more than a rounding error
    return np.where(known, end, np.inf), np.where(known, firm, np.inf)


def ranged(result: Enclosed, above: Flags | bool, below: Flags | bool) -> Enclosed:
    """The result of an operation whose range alone is computed."""
    lo, hi = outward(result.lo, result.hi)
    lo = lo if above is False else np.where(above, np.maximum(lo, 0.0), lo)
    hi = hi if below is False else np.where(below, np.minimum(hi, 0.0), hi)
    zero = np.broadcast_to(0.0, np.broadcast_shapes(lo.shape, np.shape(result.bad)))
    lo, hi = np.broadcast_to(lo, zero.shape), np.broadcast_to(hi, zero.shape)
    flags = (np.broadcast_to(part, zero.shape) for part in (result.bad, result.undefined))
    return Enclosed(lo, hi, zero, zero, *flags)


def power_of_two_below(size: Bounds) -> Bounds:
    """The largest power of two that is at most `size`; an ulp of `size` is 2 u times that."""
    exponent = np.frexp(size)[1] - 1
    return np.where(np.isfinite(size), np.ldexp(1.0, np.maximum(exponent, -1000)), np.inf)


def unrounded(
    lo: Bounds, hi: Bounds, d: Bounds, a: Bounds, bad: Flags, undefined: Flags
) -> Enclosed:
    """The result of an operation that only selects or negates."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in (lo, hi, d, a, bad, undefined)))
    d, a = np.where(bad, np.inf, d), np.where(bad, np.inf, a)
    lo, hi, d, a = (np.broadcast_to(x, shape) for x in (lo, hi, d, a))
    return Enclosed(lo, hi, d, a, np.broadcast_to(bad, shape), np.broadcast_to(undefined, shape))

"""The rules of special functions (see `rules`): the error function, the normal distribution, gamma,
and functions of two numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special

from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Exceeds,
    Rounding,
    between,
    exact,
    literals,
    power_of_two_below,
    rounded,
    up,
)
from gradcheck_cli.search.enclosures.function_rules import (
    along,
    beyond_exp,
    error_of,
    library,
    steady,
)
from gradcheck_cli.search.enclosures.function_rules import softplus as _softplus
from gradcheck_cli.search.enclosures.rules import (
    RULES,
    Rule,
    add,
    divide,
    flags,
    multiply,
    negative,
    rule,
    subtract,
)
from reference_engine.arithmetic.constants import SELU_ALPHA, SELU_SCALE

_NARROW_ERF = 2.0**-21
"""Absolute. In half precision, and in its gelu of float32, PyTorch takes formula 7.1.26 of
Abramowitz and Stegun, off by 2^-22.7."""
_TRIGAMMA = 2.0**-29
"""Relative. PyTorch's series is off by 2^-31.5 in float64."""
_LEAST_GAMMA = 1.4616321449683623  # where lgamma is least above 0
_SUBNORMAL = 2.3e-308  # SciPy returns 0 below it


# The error function and the normal distribution.


@rule("erf")
def _erf(rounding: Rounding, x: Enclosed) -> Enclosed:
    ends = scipy.special.erf(x.lo), scipy.special.erf(x.hi)
    narrow = rounding.unit > 2.0**-23
    a = up(1.13 * x.a) + (_NARROW_ERF if narrow else 0.0)
    # TensorFlow has nan where x^2 overflows
    bad = rounding.loose & ~(up(x.most + error_of(x)) ** 2 < rounding.largest)
    a, flush = np.where(bad, np.inf, a), rounding.flush
    return library(
        rounding, x, ends, along(x.d), a, bad, within=(-1.0, 1.0), plain=flush, single=not narrow
    )


@rule("erfc")
def _erfc(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Its logarithm has a slope below 2 x + 1.13 in size for x above 0, and below 1.13 elsewhere.
    It is computed by exp(-x^2), whose argument is rounded; near 0 that was measured, too."""
    e, far = error_of(x), np.maximum(x.hi, 0)
    ends = scipy.special.erfc(x.hi), scipy.special.erfc(x.lo)
    measured = rounding.measured_over(x)
    elsewhere = 8 * rounding.unit * (1 + far) ** 2 + rounding.library
    own = np.where(np.isfinite(measured), measured, elsewhere)
    d = up(np.expm1(e * (2 * np.maximum(x.hi + e, 0) + 1.13)))
    zero = np.zeros(d.shape)
    return library(rounding, x, _tails(ends, far), d, zero, within=(0.0, 2.0), own=own)


def _tails(ends: tuple[Bounds, Bounds], far: Bounds) -> tuple[Bounds, Bounds]:
    """The range, widened where SciPy's function loses digits as exp(-far^2) does."""
    slop = 2.0**-40 * (1 + far**2)
    low = np.maximum(ends[0] * (1 - np.minimum(slop, 1)) - _SUBNORMAL, 0.0)
    return low, ends[1] * (1 + slop) + _SUBNORMAL


def _bell(scale: float, peak: float) -> Rule:
    """peak exp(-scale x^2): its exponent is rounded, and an error e of x moves it by scale (2 |x| +
    e) e."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        e = error_of(x)
        ends = peak * np.exp(-scale * x.most**2), peak * np.exp(-scale * x.least**2)
        exponent = scale * (e * (2 * x.most + e) + 3 * rounding.unit * (x.most + e) ** 2)
        d = up(np.expm1(up(exponent)) + rounding.unit)
        zero = np.zeros(d.shape)
        return library(rounding, x, _tails(ends, x.most), d, zero, within=(0.0, np.inf))

    return rule


RULES["gaussian"] = _bell(1.0, 1.0)
RULES["normal_density"] = _bell(0.5, float(1 / np.sqrt(2 * np.pi)))


@rule("ndtr")
def _ndtr(rounding: Rounding, x: Enclosed) -> Enclosed:
    """Its slope is below 0.4. It may be computed as (1 + erf(x / sqrt(2))) / 2."""
    ends = scipy.special.ndtr(x.lo), scipy.special.ndtr(x.hi)
    a = up(0.4 * error_of(x) + _of_one(rounding))
    return library(rounding, x, _tails(ends, x.most), np.zeros(a.shape), a, within=(0.0, 1.0))


def _of_one(rounding: Rounding) -> float:
    """The error of 1 + f(x) where f is close to -1."""
    return 2 * rounding.library + (_NARROW_ERF if rounding.unit > 2.0**-23 else 0.0)


@rule("gelu")
def _gelu(rounding: Rounding, x: Enclosed, *, approximate: bool = False) -> Enclosed:
    """x times a factor that is computed as (1 + f(w)) / 2, with slope below 0.5. f is erf of w = x
    / sqrt(2), or tanh of a cubic, with an error of some ulps of a number below 1. The relative
    error of w moves f by this part of |w| f'(w). The sum and the product are rounded."""
    near, far = _shape(x.least, approximate), _shape(x.most, approximate)
    top = np.maximum(far[1], near[1])
    size = np.minimum(top, 1.0) if rounding.loose else power_of_two_below(np.minimum(top, 1.0))
    steep = np.where(near[0] < 1.0, 0.5, far[0] * near[2])  # |w| f'(w) is below 0.49
    own = (8 if approximate else 2) * rounding.unit * np.minimum(steep, 0.5)
    narrow = 0.0 if approximate or rounding.unit < 2.0**-25 else _NARROW_ERF
    a = up(0.5 * (error_of(x) + rounding.library * size + own + narrow))
    ends = _tails((scipy.special.ndtr(x.lo), scipy.special.ndtr(x.hi)), x.most)
    slack = 5e-4 if approximate else 0.0  # between both forms, 0.0005 at most
    lo, hi = np.maximum(ends[0] - slack, 0.0), np.minimum(ends[1] + slack, 1.0)
    value = Enclosed(lo, hi, np.zeros(a.shape), a, x.bad, x.undefined)
    share = rounded(rounding, value, relative=2 * rounding.unit, least=rounding.library_least)
    found = multiply(rounding, x, share)
    # x (1 + f) is up to twice as large
    bad = found.bad | ~(2 * (x.most + error_of(x)) < rounding.largest)
    a = np.where(bad, np.inf, found.a + rounding.library_least)
    return replace(found, a=a, bad=bad, overflows=False, floor=np.inf, firm=np.inf)


def _shape(size: Bounds, approximate: bool) -> tuple[Bounds, Bounds, Bounds]:
    """Upper bounds, for |x| = `size`, on |w|, f(|w|) and f'(|w|), with the w and f of gelu."""
    if approximate:
        w = 0.79788456080287 * (size + 0.044715 * size**3)
        return w, np.tanh(w) + 1e-15, np.cosh(np.minimum(w, 300.0)) ** -2 * (1 + 1e-12)
    w = size * math.sqrt(0.5)
    return w, scipy.special.erf(w) + 1e-15, 1.13 * np.exp(-(w**2))


@rule("log_sigmoid")
def _log_sigmoid(rounding: Rounding, x: Enclosed) -> Enclosed:
    return negative(rounding, _softplus(rounding, negative(rounding, x)))


@rule("elu")
def _elu(rounding: Rounding, x: Enclosed, *, alpha: float = 1.0) -> Enclosed:
    """On each side of 0, its size is concave in |x|, with slope 1 or alpha. TensorFlow computes
    exp(x) - 1 below 0."""
    if alpha < 0:
        raise Exceeds(f"`elu` of alpha {alpha} has no enclosure rule")
    low, high = (np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))) for x in (x.lo, x.hi))
    a = up(max(1.0, alpha) * (x.a + (2 * rounding.library if rounding.loose else 0.0)))
    return library(rounding, x, (low, high), along(x.d), a, least=steady(rounding))


@rule("selu")
def _selu(rounding: Rounding, x: Enclosed) -> Enclosed:
    """A multiple of elu."""
    found = _elu(rounding, x, alpha=float(SELU_ALPHA))
    return multiply(rounding, found, literals(rounding, np.full(x.lo.shape, float(SELU_SCALE))))


@rule("softsign")
def _softsign(rounding: Rounding, x: Enclosed) -> Enclosed:
    size = RULES["abs"](rounding, x)
    found = divide(rounding, x, add(rounding, exact(np.ones(x.lo.shape)), size))
    lo, hi = (t / (1 + np.abs(t)) for t in (x.lo, x.hi))
    return replace(
        found,
        lo=np.fmax(found.lo, lo - 1e-14 * np.abs(lo)),
        hi=np.fmin(found.hi, hi + 1e-14 * np.abs(hi)),
    )


@rule("one_minus_square")
def _one_minus_square(rounding: Rounding, x: Enclosed) -> Enclosed:
    one = exact(np.ones(x.lo.shape))
    found = multiply(rounding, subtract(rounding, one, x), add(rounding, one, x))
    lo, hi = np.maximum(found.lo, 1 - x.most**2 - 1e-12 * (1 + x.most**2)), np.minimum(found.hi, 1)
    return replace(found, lo=lo, hi=hi)


# Inverses of the error function and of the normal distribution, whose slopes grow with their size.


def _quantile(function: Any, slope: Any, ends: tuple[float, float]) -> Rule:
    """An inverse function on an interval, whose slope is the function `slope` of its value. JAX and
    TensorFlow round 1 - x or x^2 on the way, which moves the argument by 2 u."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        e = up(error_of(x) + (2 * rounding.unit if rounding.loose else 0.0))
        low, high = x.lo - e, x.hi + e
        bad, pole = ~((low > ends[0]) & (high < ends[1])), (x.lo <= ends[0]) | (x.hi >= ends[1])
        steepest = np.maximum(*(slope(function(np.clip(t, *ends))) for t in (low, high)))
        a = np.where(e == 0, 0.0, up(e * steepest * (1 + 2.0**-30)))
        lo, hi = (function(np.clip(end, *ends)) for end in (x.lo, x.hi))
        near = 0.0 if ends[0] < 0 else 1.0  # SciPy keeps the digits of an odd function near 0
        lo, hi = (t + s * 2.0**-44 * (near + np.abs(t)) for t, s in ((lo, -1), (hi, 1)))
        a = np.where(bad | ~np.isfinite(a), np.inf, a)
        d = np.full(a.shape, rounding.library)
        return library(rounding, x, (lo, hi), d, a, bad | np.isinf(a), pole, least=steady(rounding))

    return rule


RULES["erfinv"] = _quantile(
    scipy.special.erfinv, lambda y: np.sqrt(np.pi) / 2 * np.exp(y * y), (-1.0, 1.0)
)
RULES["ndtri"] = _quantile(
    scipy.special.ndtri, lambda y: np.sqrt(2 * np.pi) * np.exp(y * y / 2), (0.0, 1.0)
)


# Bessel functions of order 0 and 1. Engines' series of Chebyshev are off by 12 ulps.

_SERIES = 6
"""Times the error of a function of a library: 24 ulps."""
_CREST = 1.5451, 1.5452, 0.2191  # where exp(-x) I1(x) is largest, and its value, rounded up


def _bessel(function: Any, scaled: bool, odd: bool) -> Rule:
    """I0 or I1 (`odd`), or `scaled` by exp(-|x|). The slopes of I0 and I1 are at most I0. The slope
    of the scaled I1 is at most 1/2, and the logarithm of I0 has a slope of at most 1."""

    def rule(rounding: Rounding, x: Enclosed) -> Enclosed:
        e = error_of(x)
        if odd:
            lo, hi = function(x.lo), function(x.hi)
            steepest = 0.5 if scaled else scipy.special.i0(x.most + e)
        else:
            lo, hi = function(x.least), function(x.most)
            steepest = 0.0
        if odd and scaled:
            lo, hi = _with_crests(x, np.minimum(lo, hi), np.maximum(lo, hi))
        elif scaled:
            lo, hi = hi, lo
        d = np.full(lo.shape, _SERIES * rounding.library)
        d = d if odd else up(d + np.expm1(e))  # the derivative of its logarithm is below 1
        a = np.where(e == 0, 0.0, up(e * steepest)) if odd else np.zeros(d.shape)
        lo, hi = lo - np.abs(lo) * 2.0**-40, hi + np.abs(hi) * 2.0**-40
        bad = False if scaled else beyond_exp(rounding, x)
        a = np.where(np.isfinite(a), a, np.inf)
        return library(rounding, x, (lo, hi), d, a, bad | np.isinf(a), least=steady(rounding))

    return rule


def _with_crests(x: Enclosed, lo: Bounds, hi: Bounds) -> tuple[Bounds, Bounds]:
    """The range of exp(-|x|) I1(x), which has two extrema."""
    begin, end, top = _CREST
    above = (x.lo <= end) & (x.hi >= begin)
    below = (x.lo <= -begin) & (x.hi >= -end)
    return np.where(below, -top, lo), np.where(above, top, hi)


RULES["i0"] = _bessel(scipy.special.i0, False, False)
RULES["i1"] = _bessel(scipy.special.i1, False, True)
RULES["i0e"] = _bessel(scipy.special.i0e, True, False)
RULES["i1e"] = _bessel(scipy.special.i1e, True, True)


# Probabilities.


@rule("logit_slope")
def _logit_slope(rounding: Rounding, x: Enclosed) -> Enclosed:
    """1 / (x (1 - x)); nothing is known outside of the domain of logit."""
    one = exact(np.ones(x.lo.shape))
    found = divide(rounding, one, multiply(rounding, x, subtract(rounding, one, x)))
    e = error_of(x)
    beyond = ~((x.lo - e >= 0) & (x.hi + e <= 1))
    bad, undefined = found.bad | beyond, found.undefined | (x.lo < 0) | (x.hi > 1)
    d, a = np.where(bad, np.inf, found.d), np.where(bad, np.inf, found.a)
    return replace(
        found, d=d, a=a, bad=bad, undefined=undefined, overflows=found.overflows & ~beyond
    )


@rule("logit")
def _logit(rounding: Rounding, x: Enclosed) -> Enclosed:
    """The logarithm of x / (1 - x); it increases."""
    odds = divide(rounding, x, subtract(rounding, exact(np.ones(x.lo.shape)), x))
    found: Enclosed = RULES["log"](rounding, odds)
    lo, hi = (scipy.special.logit(np.clip(end, 0, 1)) for end in (x.lo, x.hi))
    lo, hi = (end + slop for end, slop in ((lo, -1e-14), (hi, 1e-14)))
    undefined = found.undefined | (x.lo <= 0) | (x.hi >= 1)
    return replace(found, lo=np.fmax(found.lo, lo), hi=np.fmin(found.hi, hi), undefined=undefined)


@rule("entr")
def _entr(rounding: Rounding, x: Enclosed) -> Enclosed:
    return negative(rounding, multiply(rounding, x, RULES["log"](rounding, x)))


@rule("bce_terms")
def _bce_terms(rounding: Rounding, p: Enclosed, y: Enclosed) -> Enclosed:
    """-(y log(p) + (1 - y) log(1 - p)), with p in (0, 1)."""
    one = exact(np.ones(np.shape(y.lo)))
    first = multiply(rounding, y, RULES["log"](rounding, p))
    rest = RULES["log1p"](rounding, negative(rounding, p))
    rest = multiply(rounding, subtract(rounding, one, y), rest)
    return negative(rounding, add(rounding, first, rest))


@rule("logistic_terms")
def _logistic_terms(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """y softplus(-x) + (1 - y) softplus(x)."""
    one = exact(np.ones(np.shape(y.lo)))
    first = multiply(rounding, y, _softplus(rounding, negative(rounding, x)))
    rest = multiply(rounding, subtract(rounding, one, y), _softplus(rounding, x))
    return add(rounding, first, rest)


@rule("kl_terms")
def _kl_terms(rounding: Rounding, log_p: Enclosed, q: Enclosed) -> Enclosed:
    """q (log(q) - log_p), with q above 0."""
    apart = subtract(rounding, RULES["log"](rounding, q), log_p)
    return multiply(rounding, q, apart)


@rule("sinc")
def _sinc(rounding: Rounding, x: Enclosed) -> Enclosed:
    """sin(pi x) / (pi x), with slope below 1.4; it is least near |x| = 1.43. The rounding of its
    argument costs as much as the quotient."""
    ends = np.sinc(x.lo), np.sinc(x.hi)
    falls = (x.most <= 1) & ((x.lo >= 0) | (x.hi <= 0))
    far = np.where(x.least > 1, 1 / (np.pi * x.least), 1.0)
    lo = np.where(falls, np.minimum(*ends), np.where(x.most <= 1, 0.0, -np.minimum(0.2173, far)))
    hi = np.where(falls, np.maximum(*ends), far)
    a = up(1.4 * error_of(x) + 8 * rounding.library)
    beyond = ~(3.15 * (x.most + error_of(x)) < rounding.largest)  # then pi x is infinite
    ends, zero = (lo - 2.0**-45, hi + 2.0**-45), np.zeros(a.shape)
    a = np.where(beyond, np.inf, a)
    return library(rounding, x, ends, zero, a, beyond, within=(-0.2173, 1.0))


# Gamma, above 0. Elsewhere nothing is known.


def _above_zero(
    rounding: Rounding, x: Enclosed, ends: tuple[Bounds, Bounds], steepest: Bounds, own: float
) -> Enclosed:
    """A function with a pole at 0 and a slope of at most `steepest`. Near its zeros its error is
    `own` times that of a library function, of 1, or what was measured of 1 or of larger numbers."""
    e = error_of(x)
    pole = ~(x.lo > 0)
    bad = pole | ~(x.lo - e > 0)
    measured = rounding.measured_over(x)
    known = np.isfinite(measured)
    lo, hi = np.where(pole, -np.inf, ends[0]), np.where(pole, np.inf, ends[1])
    lo, hi = np.nan_to_num(lo, nan=-np.inf) - 1e-14, np.nan_to_num(hi, nan=np.inf) + 1e-14
    range_of = between(lo, hi)
    of_1 = np.where(known, np.where(range_of.least >= 1, 0.0, measured), own * rounding.library)
    d = np.where(known, np.where(range_of.most <= 1, 0.0, measured), 8 * rounding.library)
    a = up(np.where(e == 0, 0.0, e * steepest) + of_1)
    a = np.where(bad | ~np.isfinite(a), np.inf, a)
    once = np.where(known, 0.0, rounding.library)  # it was measured after its rounding
    return library(rounding, x, (lo, hi), d, a, bad | np.isinf(a), pole, own=once)


def _nearest(x: Enclosed) -> Bounds:
    """The least number that the computed argument may be, but at least the smallest one above 0."""
    return np.asarray(np.maximum(x.lo - error_of(x), 5e-324))


@rule("lgamma")
def _lgamma(rounding: Rounding, x: Enclosed) -> Enclosed:
    low, high = np.maximum(x.lo, 5e-324), np.maximum(x.hi, 5e-324)
    one, other = scipy.special.gammaln(low), scipy.special.gammaln(high)
    inside = (low <= _LEAST_GAMMA) & (high >= _LEAST_GAMMA)
    least = np.where(inside, scipy.special.gammaln(_LEAST_GAMMA), np.minimum(one, other))
    slopes = [np.abs(scipy.special.psi(t)) for t in (_nearest(x), high + error_of(x))]
    most = np.maximum(one, other)
    fits = 1.001 * (most + high) < rounding.largest  # engines compute x log(x) - x
    x = replace(x, bad=x.bad | ~fits, overflows=False)
    return _above_zero(rounding, x, (least, most), np.maximum(*slopes), 8.0)


@rule("digamma")
def _digamma(rounding: Rounding, x: Enclosed) -> Enclosed:
    ends = scipy.special.psi(np.maximum(x.lo, 5e-324)), scipy.special.psi(x.hi)
    steepest = scipy.special.zeta(2.0, _nearest(x))
    return _above_zero(rounding, x, ends, steepest, 8.0)


@rule("polygamma")
def _polygamma(rounding: Rounding, x: Enclosed, *, n: int) -> Enclosed:
    """(-1)^(n + 1) n! zeta(n + 1, x), whose size decreases. Both factors may be rounded, and n! is
    computed as exp(lgamma(n + 1))."""
    times = math.factorial(n)
    if times > rounding.largest / 2:
        raise Exceeds(f"`polygamma` of order {n} has no enclosure rule: its factorial overflows")
    near, far = np.maximum(x.lo, 5e-324), np.maximum(x.hi, 5e-324)
    ends = tuple(times * scipy.special.zeta(n + 1.0, t) for t in (far, near))
    steepest = math.factorial(n + 1) * scipy.special.zeta(n + 2.0, _nearest(x))
    found = _above_zero(rounding, x, ends, steepest, 0.0)
    own = 3 * rounding.unit + math.log(times) * rounding.library + _TRIGAMMA
    found = replace(found, d=up(found.d + own), a=up(found.a + times * rounding.least))
    return found if n % 2 else negative(rounding, found)


# Two numbers.


@rule("betaln")
def _betaln(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """lgamma(x) + lgamma(y) - lgamma(x + y)."""
    apart = add(rounding, _lgamma(rounding, x), _lgamma(rounding, y))
    return subtract(rounding, apart, _lgamma(rounding, add(rounding, x, y)))


@rule("hypot")
def _hypot(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """It increases with the sizes of both numbers, with slope 1 at most, and scales if both do."""
    ends = np.hypot(x.least, y.least), np.hypot(x.most, y.most)
    d, a = np.maximum(x.d, y.d), up(x.a + y.a)
    bad, undefined = flags(x, y)
    whole = replace(x, bad=bad, undefined=undefined)
    return library(rounding, whole, ends, along(d), a, within=(0.0, np.inf))


@rule("hypot_slope")
def _hypot_slope(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """x / hypot(x, y), where x and y are not both 0."""
    found = divide(rounding, x, _hypot(rounding, x, y))
    d, a = up(found.d + 2 * rounding.library), up(found.a + 2 * rounding.library_least)
    lo, hi = np.maximum(found.lo, -1.0), np.minimum(found.hi, 1.0)
    return replace(found, lo=lo, hi=hi, d=d, a=a, floor=np.inf, firm=np.inf)


@rule("logaddexp")
def _logaddexp(rounding: Rounding, x: Enclosed, y: Enclosed) -> Enclosed:
    """The larger number plus at most log 2. Both parts may cancel."""
    ends = np.logaddexp(x.lo, y.lo), np.logaddexp(x.hi, y.hi)
    a = up(np.maximum(x.error, y.error) + 4 * rounding.library)
    slop = 2.0**-48 * (1 + np.maximum(np.abs(ends[0]), np.abs(ends[1])))
    bad, undefined = flags(x, y)
    whole = replace(x, bad=bad, undefined=undefined)
    ends = ends[0] - slop, ends[1] + slop
    return library(rounding, whole, ends, np.zeros(np.shape(a)), a)


def _weighted_log(name: str) -> Rule:
    """x log(y), or x log(1 + y)."""

    def rule(rounding: Rounding, x: Enclosed, y: Enclosed) -> Any:
        return multiply(rounding, x, RULES[name](rounding, y))

    return rule


RULES["xlogy"] = _weighted_log("log")
RULES["xlog1py"] = _weighted_log("log1p")


@rule("atan2")
def _atan2(rounding: Rounding, y: Enclosed, x: Enclosed) -> Enclosed:
    """For x above 0, the arc tangent of y / x."""
    quotient = divide(rounding, y, x)
    found = RULES["atan"](rounding, quotient)
    beyond = x.lo <= 0
    bad, undefined = found.bad | beyond, found.undefined | beyond
    d, a = np.where(bad, np.inf, found.d), np.where(bad, np.inf, found.a)
    lo, hi = np.where(beyond, -4.0, found.lo), np.where(beyond, 4.0, found.hi)
    above = {"flushed": found.flushed, "floor": found.floor, "firm": found.firm}
    return Enclosed(lo, hi, d, a, bad, undefined, **above)

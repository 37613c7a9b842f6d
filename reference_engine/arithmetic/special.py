"""Special functions of plain arrays in the forms that keep digits; the rest is SciPy's.

Everything here is computed in float64 and rounded once. SciPy is imported in the functions: its
import costs more than the rest of this library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from reference_engine.floats import Array, ArrayFunction, in_float32, weak_pair

SQRT_2 = math.sqrt(2)
SQRT_PI = math.sqrt(math.pi)
# B_2, B_4, ..., B_20
BERNOULLI: tuple[float, ...] = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
BERNOULLI += (-3617 / 510, 43867 / 798, -174611 / 330)


def scipy_special(name: str) -> Callable[..., Any]:
    """The function of this name in scipy.special, computed in float32 for narrow formats."""

    def value(*xs: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*xs)

    return in_float32(value)


def in_float64(function: ArrayFunction) -> ArrayFunction:
    """Computes a function of arrays in float64, and rounds the result to their common dtype."""

    @wraps(function)
    def value(*xs: Any, **keywords: Any) -> Any:
        xs = weak_pair(*xs) if len(xs) == 2 else xs
        dtype = np.result_type(*xs)
        wide = [np.asarray(x, np.float64) for x in xs]
        with np.errstate(all="ignore"):
            y = np.asarray(function(*wide, **keywords))
            return y if dtype.kind in "biu" else y.astype(dtype)

    return value


@cache
def _exponential_rule() -> tuple[tuple[float, float], ...]:
    """Nodes and weights of a quadrature over t > 0 for integrands that decay like exp(-t^2).

    The trapezoidal rule in v for t = exp(v - exp(-v)), whose error falls exponentially with the
    step (Takahasi and Mori, Publ. RIMS 9, 1974); exact to roundoff for steps of 0.12 and less.
    """
    v = np.arange(-37, 20) / 10
    t = np.exp(v - np.exp(-v))
    return tuple(zip(t.tolist(), (0.1 * t * (1 + np.exp(-v))).tolist(), strict=True))


DEPTH = 80  # of the continued fraction


def ierfc_ratios(x: Array, n: int) -> list[Array]:
    """i^k erfc(x) / erfc(x) for x >= 0 and k = 0, ..., n: repeated integrals of erfc.

    Below 2 both are integrals of t^k exp(-t^2 - 2xt) over t > 0 (DLMF 7.18.2), of one sign, so that
    no digits cancel. From 2 on by the continued fraction of their recurrence,
    w_(k-1) = 2x w_k + 2(k+1) w_(k+1) (DLMF 7.18.7), whose error is exp(-2x sqrt(2 DEPTH)).
    """
    small, large = np.minimum(x, 2), np.maximum(x, 2)
    moments = [np.zeros_like(x) for _ in range(n + 1)]
    for t, weight in _exponential_rule():
        term = weight * np.exp(-t * (t + 2 * small))
        for k in range(n + 1):
            moments[k] += term * (t**k / math.factorial(k))
    ratio = np.zeros_like(x)
    fractions = []
    for k in range(n + DEPTH, 0, -1):
        ratio = 1 / (2 * large + 2 * (k + 1) * ratio)
        fractions.append(ratio)
    far = [np.ones_like(x), *np.cumprod(fractions[: -n - 1 : -1], axis=0)]
    return [np.where(x < 2, m / moments[0], f) for m, f in zip(moments, far, strict=True)]


@in_float64
def scaled_ierfc(x: Array, n: int) -> Any:
    """exp(x^2) i^n erfc(x), from erfcx = exp(x^2) erfc(x).

    For x < 0 by the recurrence 2n w_n = w_(n-2) - 2x w_(n-1) (DLMF 7.18.7), all terms positive.
    """
    import scipy.special

    erfcx = scipy.special.erfcx(x)
    before, upwards = np.full_like(x, 2 / SQRT_PI), erfcx
    for k in range(1, n + 1):
        before, upwards = upwards, (before - 2 * x * upwards) / (2 * k)
    return np.where(x < 0, upwards, ierfc_ratios(np.abs(x), n)[n] * erfcx)


def _right_hazard(x: Array) -> Any:
    import scipy.special

    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / scipy.special.ndtr(x)


@in_float64
def normal_hazard(x: Array) -> Any:
    """phi(x) / Phi(x); on the left by erfcx, where both underflow."""
    import scipy.special

    left = math.sqrt(2 / math.pi) / scipy.special.erfcx(-np.minimum(x, 0) / SQRT_2)
    return np.where(x > 0, _right_hazard(x), left)


@in_float64
def normal_excess(x: Array) -> Any:
    """x + phi(x) / Phi(x), which is about -1/x on the left, where the terms cancel."""
    left = SQRT_2 * ierfc_ratios(-np.minimum(x, 0) / SQRT_2, 1)[1]
    return np.where(x > 0, x + _right_hazard(x), left)


@in_float64
def normal_spread(x: Array) -> Any:
    """1 - h (x + h) for h = phi(x) / Phi(x): the variance of a normal number below x."""
    h = _right_hazard(x)
    _, first, second = ierfc_ratios(-np.minimum(x, 0) / SQRT_2, 2)
    return np.where(x > 0, 1 - h * (x + h), 4 * second - 2 * first**2)


@in_float64
def erfinv_slope(x: Array) -> Any:
    """sqrt(pi)/2 exp(y^2) for y = erfinv(x), as sqrt(pi)/2 erfcx(|y|) / (1 - |x|)."""
    import scipy.special

    size = np.abs(x)
    slope = SQRT_PI / 2 * scipy.special.erfcx(scipy.special.erfinv(size)) / (1 - size)
    return np.where(size == 1, np.inf, slope)


@in_float64
def ndtri_slope(x: Array) -> Any:
    """1 / phi(y) for y = ndtri(x), as 1 / (q h(-|y|)) with the tail q = min(x, 1 - x)."""
    import scipy.special

    tail = np.minimum(x, 1 - x)
    slope = 1 / (tail * normal_hazard(-np.abs(scipy.special.ndtri(x))))
    return np.where(tail == 0, np.inf, slope)


@in_float64
def logit(x: Array) -> Any:
    """log(x / (1 - x)); around 1/2, where 2x - 1 is exact, as 2 artanh(2x - 1)."""
    middle = np.abs(x - 0.5) <= 0.25
    inside = 2 * np.arctanh(np.where(middle, 2 * x - 1, 0))
    return np.where(middle, inside, np.log(x) - np.log1p(-x))


@in_float64
def logit_slope(x: Array) -> Any:
    """1 / (x (1 - x)), nan outside of [0, 1]."""
    return np.where((x >= 0) & (x <= 1), 1 / np.abs(x * (1 - x)), np.nan)


@cache
def _lgamma_coefficients() -> tuple[float, ...]:
    """(-1)^k (zeta(k) - 1) / k for k = 31, ..., 2, then 1 minus Euler's constant."""
    import scipy.special

    series = [(-1) ** k * float(scipy.special.zetac(k)) / k for k in range(31, 1, -1)]
    return (*series, 1 - float(np.euler_gamma))


@in_float64
def lgamma(x: Array) -> Any:
    """log |Gamma(x)|; between 1/2 and 5/2 by the series at its zeros 1 and 2 (DLMF 5.7.3)."""
    import scipy.special

    z = np.where(x < 1.5, x - 1, x - 2)
    series = np.zeros_like(x)
    for coefficient in _lgamma_coefficients():
        series = series * z + coefficient
    near = z * series - np.where(x < 1.5, np.log1p(z), 0)
    return np.where(np.abs(x - 1.5) <= 1, near, scipy.special.gammaln(x))


@cache
def _cotangent_polynomial(n: int) -> tuple[int, ...]:
    """Coefficients c_0, c_1, ... of P with d^n/dt^n cot(t) = P(cot(t)), all of one sign."""
    p = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(p)][1:]
        p = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(p)


def _polygamma_right(x: Array, n: int) -> Any:
    """For x >= 0 and n > 0, by Hurwitz' zeta function (DLMF 25.11.12)."""
    import scipy.special

    sign = (-1) ** (n + 1)
    y = sign * scipy.special.gamma(n + 1.0) * scipy.special.zeta(n + 1.0, x)
    return np.where(x == 0, sign * x ** -(n + 1.0), y)


def _polygamma_left(x: Array, n: int) -> Array:
    """For x < 0 and n > 0, reflected (DLMF 5.15.6); nan at a pole with two signs. Raises
    OverflowError where pi^(n + 1) is no double."""
    scale = math.pi ** (n + 1)  # first: it overflows before a polynomial of degree n takes long
    from_pole = x - np.round(x)
    cotangent = 1 / np.tan(np.pi * from_pole)
    odd = (n + 1) % 2
    *lower, highest = _cotangent_polynomial(n)[odd::2]
    total = np.full_like(x, highest)
    for c in reversed(lower):
        total = total * cotangent**2 + c
    reflected = (-1) ** n * _polygamma_right(1 - x, n)
    y = reflected - scale * total * (cotangent if odd else 1)
    return np.where((from_pole == 0) & bool(odd), np.nan, y)


@in_float64
def polygamma(x: Array, n: int) -> Any:
    """The derivative of order n of digamma. Raises ValueError unless n is a whole number >= 0."""
    import scipy.special

    if n != int(n) or n < 0:
        raise ValueError(f"n must be a whole number >= 0, not {n}")
    if n == 0:
        return scipy.special.psi(x)
    right = _polygamma_right(np.where(x < 0, -x, x), int(n))
    return np.where(x < 0, _polygamma_left(np.minimum(x, 0), int(n)), right)


SHIFT = 15  # from here on ten terms of Stirling's series are right to roundoff, for small n


@in_float64
def polygamma_drop(a: Array, b: Array, n: int) -> Any:
    """psi^(n)(a) - psi^(n)(a + b).

    For a, b >= 0 term by term, so that no digits cancel where b is small beside a, or both are
    large: 15 steps of the recurrence, then Stirling's series (DLMF 5.15.5, 5.15.8).
    """

    def drop(x: Array, p: int) -> Any:
        """x^-p - (x + b)^-p"""
        return x**-p * -np.expm1(-p * np.log1p(b / x))

    near = sum(math.factorial(n) * drop(a + j, n + 1) for j in range(SHIFT))
    x = a + SHIFT
    far = -np.log1p(b / x) if n == 0 else math.factorial(n - 1) * drop(x, n)
    far = (-1 if n == 0 else 1) * far
    far = far + math.factorial(n) / 2 * drop(x, n + 1)
    for k, bernoulli in enumerate(BERNOULLI, 1):
        weight = math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        far = far + bernoulli * weight * drop(x, 2 * k + n)
    direct = polygamma(a, n=n) - polygamma(a + b, n=n)
    return np.where((a >= 0) & (b >= 0), (-1) ** (n + 1) * (near + far), direct)


def _stirling(x: Array) -> Array:
    """log Gamma(x) - (x - 1/2) log(x) + x - log(2 pi)/2 for x >= 8 (DLMF 5.11.1)."""
    terms = (b / (2 * k * (2 * k - 1)) * x ** (1 - 2 * k) for k, b in enumerate(BERNOULLI, 1))
    return np.asarray(sum(terms))


@in_float64
def betaln(a: Array, b: Array) -> Any:
    """log |Beta(a, b)|; from 8 on by differences of Stirling's series.

    A. R. DiDinato and A. H. Morris, Algorithm 708 (ACM TOMS 18, 1992), section 2.
    """
    low, high = np.minimum(a, b), np.maximum(a, b)
    top = np.maximum(high, 8)
    ratio = np.log1p(low / top)
    # log Gamma(high) - log Gamma(low + high), Stirling's main terms put together
    fall = low - (top - 0.5) * ratio - low * (np.log(top) + ratio)
    one_large = lgamma(low) + fall + _stirling(top) - _stirling(np.maximum(low, 0) + top)
    bottom = np.maximum(low, 8)
    both_large = -(bottom - 0.5) * np.log1p(top / bottom) - (top - 0.5) * np.log1p(bottom / top)
    both_large += 0.5 * (math.log(2 * math.pi) - np.log(top) - np.log1p(bottom / top))
    both_large += _stirling(bottom) + _stirling(top) - _stirling(bottom + top)
    direct = lgamma(a) + lgamma(b) - lgamma(a + b)
    some_large = np.where(low >= 8, both_large, one_large)
    return np.where((low > 0) & (high >= 8), some_large, direct)


def of_order(name: str) -> Callable[..., Any]:
    """The value of a function of SciPy that takes an order n before the number x."""

    def value(x: Array, n: float) -> Any:
        import scipy.special

        if name == "jv" and abs(n) == 1:  # jv loses digits of the smallest numbers
            return n * scipy.special.j1(x)
        return getattr(scipy.special, name)(n, x)

    return in_float64(value)


def part_of(name: str, part: int) -> Callable[..., Any]:
    """One of the two results of a function of SciPy."""

    def value(x: Array) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(x)[part]

    return in_float64(value)


def expn(x: Array, n: int) -> Any:
    """E_n(x). SciPy has the orders from 0 on; those below are derivatives of them."""
    return (of_order("expn") if n >= 0 else from_enclosure("expn"))(x, n=n)


@in_float64
def bessel_moment(x: Array, k: int) -> Any:
    """1/pi times the integral of exp(-|x| (1 - cos t)) (1 - cos t)^k from 0 to pi.

    exp(-|x|) I_0(x) for k = 0, and its derivatives by -|x|: the integrands have one sign, so that
    no digits cancel. By the trapezoidal rule, which converges exponentially for a periodic
    integrand; from 30 on by its asymptotic series (Laplace's method), which has one sign too.
    """
    u = np.abs(x)
    small = np.minimum(u, 30)
    near = np.zeros_like(u)
    for j in range(33):
        t = 1 - math.cos(math.pi * j / 32) if j < 16 else 1 + math.cos(math.pi * (32 - j) / 32)
        near += (0.5 if j in (0, 32) else 1) / 32 * t**k * np.exp(-small * t)
    large = np.maximum(u, 30)
    term = math.gamma(k + 0.5) / (math.pi * SQRT_2) * large ** -(k + 0.5)
    far = term
    for j in range(30):
        term = term * ((j + 0.5) * (k + j + 0.5) / (2 * (j + 1))) / large
        far = far + term
    return np.where(u < 30, near, far)


def from_enclosure(name: str) -> Callable[..., Any]:
    """The value of a row from its enclosure, where no library has the function."""

    def value(*xs: Array, **orders: int) -> Any:
        from reference_engine.arithmetic.ball_functions import in_float64

        one = np.frompyfunc(lambda *each: in_float64(name, *each, **orders), len(xs), 1)
        return np.asarray(one(*xs), np.float64)

    return in_float64(value)

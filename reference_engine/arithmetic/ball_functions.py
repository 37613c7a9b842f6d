"""Enclosures of the smooth elementwise rows, computed by their formulas.

No stable forms are needed: cancellation shows in the radius, and the caller uses more bits. Exact
zeros follow the conventions of the rows (0 log 0 = 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np
from flint import acb, arb, arb_series, ctx

from reference_engine.arithmetic.arbs import NotInBalls, Objects, Undecided
from reference_engine.arithmetic.arbs import precision as at_precision
from reference_engine.arithmetic.ball_choices import note_tie
from reference_engine.arithmetic.ball_parameters import INCOMPLETE


def _elementwise(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    return np.frompyfunc(function, count, 1)


def _with(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """An enclosure with keywords, which are passed to `function` after the number."""

    def value(x: Objects, **keywords: Any) -> Any:
        given = [keywords[name] for name in names]
        return np.frompyfunc(lambda one: function(one, *given), 1, 1)(x)

    return value


def _beside_0(x: Any) -> Any:
    """The argument of a square root. If a ball contains 0 and positive numbers, it is not known
    whether the derivative exists, and Undecided is raised; an exact 0 and negative numbers are
    passed on."""
    if x.contains(0) and not (
        x == 0 or x.is_nan()
    ):  # of a ball with a radius neither != nor == is certain
        raise Undecided("the ball under a square root holds 0")
    return x


def _cbrt(x: Any) -> Any:
    if x == 0 or x.is_nan():
        return x
    if x > 0:
        return x.root(3)
    if x < 0:
        return -((-x).root(3))
    raise Undecided("the ball under a cube root holds 0")


def sigmoid(x: Any) -> Any:
    e = (-x).exp() if x.mid() >= 0 else x.exp()
    return 1 / (1 + e) if x.mid() >= 0 else e / (1 + e)


def softplus(x: Any) -> Any:
    return x + (-x).exp().log1p() if x.mid() >= 0 else x.exp().log1p()


def _density(x: Any) -> Any:
    """The logistic density."""
    e = (-x).exp() if x.mid() >= 0 else x.exp()
    return e / (1 + e) ** 2


NOTHING = arb("-inf")


def _logaddexp(a: Any, b: Any) -> Any:
    if a == NOTHING or b == NOTHING:  # the exponential of one of them is exactly 0
        return b if a == NOTHING else a
    return a + softplus(b - a) if a.mid() >= b.mid() else b + softplus(a - b)


def _xlogy(a: Any, b: Any) -> Any:
    if a == 0 and b <= 0:
        note_tie("edge")
        return a
    return a * b.log()


def _xlog1py(a: Any, b: Any) -> Any:
    if a == 0 and b <= -1:
        note_tie("edge")
        return a
    return a * b.log1p()


def _power(x: Any, n: Any) -> Any:
    if x == 0 and n > 0:
        if not n.is_integer():
            note_tie("edge")
        return arb(0)
    if n > 0 and n.is_integer() and x.mid() == 0:  # Arb takes the logarithm of such a ball
        bound = x.rad() ** n
        return bound.union(-bound)
    if not (x > 0 or x < 0 or n.is_integer() or x.is_nan()):
        raise Undecided("the ball under a power holds 0")
    return x**n


def _abs_power(x: Any, n: float) -> Any:
    if x == 0 and n <= 1:
        note_tie("power")
    return _power(abs(x), arb(n))


def _signed_power(x: Any, n: float) -> Any:
    if x == 0:
        if n < 1:
            note_tie("power")
        return arb(0)
    if not (x > 0 or x < 0 or x.is_nan()):
        raise Undecided("the ball under a power holds 0")
    return x.sgn() * abs(x) ** arb(n)


def _hypot(a: Any, b: Any) -> Any:
    if a == 0 and b == 0:
        note_tie("length")
    return (a * a + b * b).sqrt()


def _atan2(a: Any, b: Any) -> Any:
    if a == 0 and b <= 0:
        note_tie("branch cut")
    return arb.atan2(a, b)


def _ndtr(x: Any) -> Any:
    return (-x / arb(2).sqrt()).erfc() / 2


def _normal_density(x: Any) -> Any:
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


def _hazard(x: Any) -> Any:
    return _normal_density(x) / _ndtr(x)


def _spread(x: Any) -> Any:
    h = _hazard(x)
    return 1 - h * (x + h)


def _ndtri(p: Any) -> Any:
    return -arb(2).sqrt() * (2 * p).erfcinv()


def _scaled_ierfc(x: Any, n: int) -> Any:
    """In Hermite functions of negative order (DLMF 7.18.11, 12.7.2)."""
    return 2 / arb.pi().sqrt() * x.hermite_h(-n - 1)


def _erfcx(x: Any) -> Any:
    """By the Hermite function where exp(x^2) is large: an enclosure of erfc may hold 0 there."""
    return _scaled_ierfc(x, 0) if x.mid() > 1 else (x * x).exp() * x.erfc()


def _entr(x: Any) -> Any:
    if x < 0:
        return arb.neg_inf()
    return arb(0) if x == 0 else -x * x.log()


def _lgamma(x: Any) -> Any:
    if x > 0:
        return x.lgamma()
    return -abs(x.rgamma()).log()


def _polygamma(x: Any, n: int) -> Any:
    if x <= 0 and x == x.floor():
        return arb.nan() if n % 2 == 0 else arb.pos_inf()
    return x.digamma() if n == 0 else acb(x).polygamma(n).real


def _polygamma_drop(a: Any, b: Any, n: int) -> Any:
    return _polygamma(a, n) - _polygamma(a + b, n)


def _bessel_moment(x: Any, k: int) -> Any:
    """(1 - D)^k I_0 times exp(-u) at u = |x|, with D^j I_0 = 2^-j sum of comb(j, i) I_(j - 2i)
    (DLMF 10.29.5)."""
    if x == 0:
        note_tie("length")
    u = abs(x)
    bessel = [u.bessel_i(j) for j in range(k + 1)]
    total = arb(0)
    for j in range(k + 1):
        derivative = sum((comb(j, i) * bessel[abs(j - 2 * i)] for i in range(j + 1)), arb(0))
        total += (-1) ** j * comb(k, j) * derivative / 2**j
    return (-u).exp() * total


def _i0e(x: Any) -> Any:
    if x == 0:
        note_tie("length")
    return (-abs(x)).exp() * x.bessel_i(0)


def _sinc_derivative(x: Any, n: int, half_turns: bool = True) -> Any:
    """Of sin(w x) / (w x) with w = pi (`half_turns`) or w = 1: x f_n = w^(n-1) sin(w x + n pi / 2)
    - n f_(n-1), with the bits that cancel near 0."""
    if x == 0:
        w = arb.pi() if half_turns else arb(1)
        at_0 = (-1) ** (n // 2) * w**n / (n + 1)
        return arb(0) if n % 2 else at_0
    lost = max(0, -math.frexp(float(abs(x).mid()))[1])
    if lost > 4096:
        raise NotInBalls("sinc_derivative", "its recurrence cancels too many digits this near to 0")
    with at_precision(ctx.prec + (n + 1) * (lost + 4)):
        w = arb.pi() if half_turns else arb(1)
        sine, cosine = x.sin_cos_pi() if half_turns else x.sin_cos()
        waves = (sine, cosine, -sine, -cosine)
        y = sine / (w * x)
        for k in range(1, n + 1):
            y = (w ** (k - 1) * waves[k % 4] - k * y) / x
    return y


def _bessel_ke_slope(x: Any, n: float, k: int) -> Any:
    """By Leibniz' rule, with D^j K_n = (-2)^-j sum of comb(j, i) K_(n - j + 2i) (DLMF 10.29.5)."""
    bessel = [x.bessel_k(n + j, scaled=True) for j in range(-k, k + 1)]
    total = arb(0)
    for j in range(k + 1):
        derivative = sum((comb(j, i) * bessel[k - j + 2 * i] for i in range(j + 1)), arb(0))
        total += comb(k, j) * derivative / (-2) ** j
    return total


def _dawsn(x: Any) -> Any:
    return arb.pi().sqrt() / 2 * (-x * x).exp() * x.erfi()


def _slope(function: Callable[..., Any], order: int = 0) -> Callable[..., Any]:
    """The derivative of order k of a function whose derivative of this order is `function`."""

    def value(x: Any, k: int) -> Any:
        n = k - order
        try:
            return function(arb_series([x, 1], n + 1))[n] * math.factorial(n)
        except (ValueError, ZeroDivisionError):  # at a pole, or in a ball with one
            return arb.nan()

    return _with(value, "k")


def _spence_slope(x: Any, k: int) -> Any:
    """log(x) / (1 - x) is -F(1, 1; 2; 1 - x) (DLMF 15.4.1, 15.5.2)."""
    series = (1 - x).hypgeom_2f1(k, k, k + 1)
    return (-1) ** k * math.factorial(k - 1) * series / k


def _times_log(y: Any, p: Any, log_p: Callable[[], Any]) -> Any:
    if y != 0:
        return y * log_p()
    if p <= 0:
        note_tie("edge")
    return arb(0)


def _bce_terms(p: Any, y: Any) -> Any:
    return -(_times_log(y, p, p.log) + _times_log(1 - y, 1 - p, (-p).log1p))


def _kl_terms(log_p: Any, q: Any) -> Any:
    # no edge for log_p at q = 0, where the slope by q is infinite, which is seen
    return arb(0) if q == 0 else q * (q.log() - log_p)


_OF_ARB = """
    exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
    erf erfc erfinv
"""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _elementwise(getattr(arb, name)) for name in _OF_ARB.split()},
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.true_divide,
    "negative": np.negative,
    "reciprocal": _elementwise(lambda x: 1 / x),
    "square": _elementwise(lambda x: x**2),
    "sqrt": _elementwise(lambda x: _beside_0(x).sqrt()),
    "rsqrt": _elementwise(lambda x: _beside_0(x).rsqrt()),
    "cbrt": _elementwise(_cbrt),
    "power": _elementwise(_power, 2),
    "abs_power": lambda x, exponent=2.0: _elementwise(lambda one: _abs_power(one, exponent))(x),
    "signed_power": lambda x, exponent=2.0: _elementwise(lambda one: _signed_power(one, exponent))(
        x
    ),
    "hypot": _elementwise(_hypot, 2),
    "hypot_slope": _elementwise(lambda a, b: arb(0) if a == 0 and b == 0 else a / _hypot(a, b), 2),
    "exp2": _elementwise(lambda x: arb(2) ** x),
    "log2": _elementwise(lambda x: x.log() / arb(2).log()),
    "log10": _elementwise(lambda x: x.log() / arb(10).log()),
    "sigmoid": _elementwise(sigmoid),
    "softplus": _elementwise(softplus),
    "log_sigmoid": _elementwise(lambda x: -softplus(-x)),
    "logistic_density": _elementwise(_density),
    "sech_squared": _elementwise(lambda x: 4 * _density(2 * x)),
    "logaddexp": _elementwise(_logaddexp, 2),
    "xlogy": _elementwise(_xlogy, 2),
    "xlog1py": _elementwise(_xlog1py, 2),
    "log1mexp": _elementwise(lambda x: (-((-x).expm1())).log()),
    "softsign": _elementwise(lambda x: x / (1 + abs(x))),
    "atan2": _elementwise(_atan2, 2),
    "sinc": _elementwise(arb.sinc_pi),
    "one_minus_square": _elementwise(lambda x: (1 - x) * (1 + x)),
    "sinc_derivative": _with(_sinc_derivative, "n"),
    "gaussian": _elementwise(lambda x: (-x * x).exp()),
    "erfcx": _elementwise(_erfcx),
    "scaled_ierfc": _with(_scaled_ierfc, "n"),
    "erfinv_slope": _elementwise(lambda x: arb.pi().sqrt() / 2 * (x.erfinv() ** 2).exp()),
    "normal_density": _elementwise(_normal_density),
    "ndtr": _elementwise(_ndtr),
    "log_ndtr": _elementwise(lambda x: _ndtr(x).log()),
    "normal_hazard": _elementwise(_hazard),
    "normal_excess": _elementwise(lambda x: x + _hazard(x)),
    "normal_spread": _elementwise(_spread),
    "ndtri": _elementwise(_ndtri),
    "ndtri_slope": _elementwise(lambda p: 1 / _normal_density(_ndtri(p))),
    "logit": _elementwise(lambda x: (x / (1 - x)).log()),
    "logit_slope": _elementwise(lambda x: 1 / (x * (1 - x))),
    "entr": _elementwise(_entr),
    "lgamma": _elementwise(_lgamma),
    "digamma": _elementwise(lambda x: _polygamma(x, 0)),
    "polygamma": _with(_polygamma, "n"),
    "polygamma_drop": lambda a, b, n: _elementwise(lambda p, q: _polygamma_drop(p, q, n), 2)(a, b),
    "betaln": _elementwise(lambda a, b: _lgamma(a) + _lgamma(b) - _lgamma(a + b), 2),
    "i0": _elementwise(lambda x: x.bessel_i(0)),
    "i1": _elementwise(lambda x: x.bessel_i(1)),
    "i0e": _elementwise(_i0e),
    "i1e": _elementwise(lambda x: (-abs(x)).exp() * x.bessel_i(1)),
    "bessel_i": _with(lambda x, n: x.bessel_i(n), "n"),
    "bessel_j": _with(lambda x, n: x.bessel_j(n), "n"),
    "bessel_y": _with(lambda x, n: x.bessel_y(n), "n"),
    "bessel_k": _with(lambda x, n: x.bessel_k(n), "n"),
    "bessel_ke": _with(lambda x, n: x.bessel_k(n, scaled=True), "n"),
    "bessel_ke_slope": _with(_bessel_ke_slope, "n", "k"),
    "bessel_moment": _with(_bessel_moment, "k"),
    "dawsn": _elementwise(_dawsn),
    "dawsn_slope": _slope(_dawsn),
    "expi": _elementwise(arb.ei),
    "expi_slope": _slope(lambda x: x.exp() / x, 1),
    "expn": _with(lambda x, n: x.expint(n), "n"),
    "spence": _elementwise(lambda x: (1 - x).polylog(2)),
    "spence_slope": _with(_spence_slope, "k"),
    "fresnel_sin": _elementwise(arb.fresnel_s),
    "fresnel_cos": _elementwise(arb.fresnel_c),
    "si": _elementwise(arb.si),
    "si_slope": _with(lambda x, k: _sinc_derivative(x, k - 1, half_turns=False), "k"),
    "ci": _elementwise(lambda x: abs(x).ci()),
    "ci_slope": _slope(lambda x: x.cos() / x, 1),
    "bce_terms": _elementwise(_bce_terms, 2),
    "logistic_terms": _elementwise(lambda x, y: y * softplus(-x) + (1 - y) * softplus(x), 2),
    "kl_terms": _elementwise(_kl_terms, 2),
    **INCOMPLETE,
}


def in_float64(name: str, *xs: float, **orders: int) -> float:
    """The value of a row as the nearest double; nan where its enclosure stays wide."""
    for bits in (128, 256, 512, 1024, 2048):
        with at_precision(bits):
            try:
                ball = FUNCTIONS[name](*map(arb, xs), **orders)
            except NotInBalls:
                break
            if ball.rad() <= abs(ball) * arb(2) ** -60 or ball.abs_upper() < arb(2) ** -1080:
                return float(ball.mid())
    return float("nan")

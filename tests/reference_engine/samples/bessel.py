"""Samples of ops/bessel.py."""

from collections.abc import Callable
from typing import Any

import mpmath
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    POSITIVE,
    REAL,
    SPECIAL,
    Exact,
    Sample,
    any_shape,
    by_mpmath,
    one,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "bessel_i": [*unary(REAL, n=2), one(REAL, 3, n=3)],
    **{
        name: [*unary(POSITIVE, n=0), one(POSITIVE, 3, n=1.5)]
        for name in ["bessel_y", "bessel_k", "bessel_ke"]
    },
    "bessel_j": [*unary(REAL, n=1), one(POSITIVE, 3, n=1.5)],
    "bessel_ke_slope": [*unary(POSITIVE, n=0, k=1), one(POSITIVE, 3, n=1.5, k=2)],
    "bessel_moment": [*unary(AWAY_FROM_ZERO, k=1), one(AWAY_FROM_ZERO, 3, k=0)],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "bessel_i": any_shape(REAL, n=st.integers(2, 4)),
    **{
        name: any_shape(POSITIVE, n=st.sampled_from([0, 1, -2.5]))
        for name in ["bessel_y", "bessel_k", "bessel_ke"]
    },
    "bessel_j": any_shape(REAL, n=st.integers(-1, 3)),
    "bessel_ke_slope": any_shape(POSITIVE, n=st.integers(0, 2), k=st.integers(1, 2)),
    "bessel_moment": any_shape(AWAY_FROM_ZERO, k=st.integers(0, 3)),
}


def _scaled(n: int, x: Any) -> Any:
    if abs(x) < 1e9:
        return mpmath.exp(-abs(x)) * mpmath.besseli(n, x)
    return _moment(x, 0) if n == 0 else mpmath.sign(x) * (_moment(x, 0) - _moment(x, 1))


def _moment(x: Any, k: int) -> Any:
    """The integral over 1 - cos t in closed form (DLMF 13.4.1); far out its asymptotic series."""
    u, half = abs(x), mpmath.mpf(1) / 2
    if u < 1e9:
        kummer = mpmath.hyp1f1(k + half, k + 1, -2 * u) * mpmath.gamma(k + half)
        return mpmath.mpf(2) ** k * kummer / (mpmath.sqrt(mpmath.pi) * mpmath.factorial(k))
    total, term, j = mpmath.mpf(0), mpmath.gamma(k + half) / (u**k * mpmath.sqrt(2 * u)), 0
    while mpmath.mag(term) > mpmath.mag(total) - mpmath.mp.prec:
        total += term
        term *= (j + half) * (k + j + half) / (2 * (j + 1) * u)
        j += 1
    return total / mpmath.pi


def mpmath_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of mpmath that takes the order before the number."""
    return lambda x, n: function(n, x)


def _scaled_k(x: Any, n: Any) -> Any:
    return mpmath.exp(x) * mpmath.besselk(n, x)


def _scaled_k_slope(x: Any, n: Any, k: int) -> Any:
    """By Leibniz' rule and DLMF 10.29.5."""
    terms = (
        mpmath.binomial(k, j) * mpmath.binomial(j, i) * mpmath.besselk(n - j + 2 * i, x) / (-2) ** j
        for j in range(k + 1)
        for i in range(j + 1)
    )
    return mpmath.exp(x) * mpmath.fsum(terms)


def _near(x: float) -> bool:
    return abs(x) < 1e5


def _above_zero(x: float) -> bool:
    return 1e-4 < x < 600


ORDERS = ({"n": 0}, {"n": -2})
POSITIVES = single(1.0, 1e-3, 2.5, 300.0)

# The derivative of i1e is 0 at 1.545..., a difference of two numbers that are not.
POINTS = single(*SPECIAL, 1e-8, 0.5, -3.0, 20.0)
LARGE = single(29.99, 30.01, 100.0, -700.0)
FAR = (*LARGE, *single(1e3, -1e5, 1e9, 1e20))

EXACT: dict[str, Exact] = {
    "i0": Exact(lambda x: mpmath.besseli(0, x), (*POINTS, *LARGE), orders=3),
    "i1": Exact(
        lambda x: mpmath.besseli(1, x), (*POINTS, *single(-80.0)), orders=3, delicate=LARGE
    ),
    "bessel_i": Exact(
        lambda x, n: mpmath.besseli(n, x), (*POINTS, *LARGE), calls=({"n": 2}, {"n": 3})
    ),
    "bessel_j": Exact(mpmath_order(mpmath.besselj), POINTS, calls=ORDERS, domain=_near),
    "bessel_y": Exact(
        mpmath_order(mpmath.bessely), POSITIVES, orders=1, calls=ORDERS, domain=_above_zero
    ),
    "bessel_k": Exact(
        mpmath_order(mpmath.besselk), POSITIVES, orders=1, calls=ORDERS, domain=_above_zero
    ),
    "bessel_ke": Exact(_scaled_k, POSITIVES, orders=1, calls=ORDERS, domain=_above_zero),
    "bessel_ke_slope": Exact(
        _scaled_k_slope,
        POSITIVES,
        orders=1,
        calls=({"n": 0, "k": 1}, {"n": 1, "k": 2}),
        domain=_above_zero,
    ),
    "i0e": Exact(lambda x: _scaled(0, x), POINTS, delicate=FAR, domain=lambda x: x != 0),
    "i1e": Exact(lambda x: _scaled(1, x), POINTS, delicate=FAR, domain=lambda x: x != 0),
    "bessel_moment": Exact(
        _moment,
        (*POINTS, *FAR),
        calls=({"k": 0}, {"k": 1}, {"k": 2}),
        domain=lambda x: x != 0,
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}

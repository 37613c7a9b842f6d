"""Samples of ops/trigonometric.py."""

from collections.abc import Callable
from typing import Any

import mpmath
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    ABOVE_ONE,
    AWAY_FROM_ZERO,
    BETWEEN_POLES_OF_TAN,
    INSIDE_ONE,
    REAL,
    SPECIAL,
    Draw,
    Exact,
    Sample,
    any_pair,
    any_shape,
    binary,
    by_mpmath,
    pairs,
    single,
    unary,
)

DRAWS: dict[str, Draw] = {
    "tan": BETWEEN_POLES_OF_TAN,
    "asin": INSIDE_ONE,
    "acos": INSIDE_ONE,
    "acosh": ABOVE_ONE,
    "atanh": INSIDE_ONE,
    "sinc": AWAY_FROM_ZERO,
}

ROWS: dict[str, list[Sample]] = {
    "sinc_derivative": [*unary(REAL, n=1), *unary(REAL, n=2)],
    "atan2": binary(AWAY_FROM_ZERO, AWAY_FROM_ZERO),
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "sinc_derivative": any_shape(REAL, n=st.integers(0, 4)),
    "atan2": any_pair(AWAY_FROM_ZERO, AWAY_FROM_ZERO),
}


def _inside(x: float) -> bool:
    return -1 < x < 1


def _sinc_derivative(x: Any, n: int) -> Any:
    """sinc(x) is the integral of cos(pi x t) over 0 < t < 1; the n-th derivative of its series."""
    with mpmath.extraprec(int(20 + 5 * abs(x))):  # the terms grow to exp(pi |x|) before they fall
        y, k, term = mpmath.mpf(0), (n + 1) // 2, mpmath.inf
        while k <= 4 * abs(x) or abs(term) > mpmath.ldexp(1, -mpmath.mp.prec):
            size = mpmath.pi ** (2 * k) / ((2 * k + 1) * mpmath.factorial(2 * k - n))
            term = (-1) ** k * size * mpmath.mpf(x) ** (2 * k - n)
            y += term
            k += 1
    return +y


EDGES = (1e-300, -1e-300, 1e-9, 0.5, -0.9, 1 - 2.0**-24, 1 - 2.0**-53)
NEAR_THE_EDGE = single(0.99999, -0.9999999)

EXACT: dict[str, Exact] = {
    "sin": Exact(mpmath.sin, single(*SPECIAL, 1e-30, -3.0, 1000.0), orders=3),
    "cos": Exact(mpmath.cos, single(*SPECIAL, 1e-30, -3.0, 1000.0), orders=3),
    "tan": Exact(mpmath.tan, single(*SPECIAL, 1e-30, 1.5, -20.0), orders=3),
    "one_minus_square": Exact(
        lambda x: (1 - x) * (1 + x), single(*SPECIAL, 0.9999999, -1.0000001, 0.5)
    ),
    "asin": Exact(mpmath.asin, single(0.0, -0.0, *EDGES), delicate=NEAR_THE_EDGE, domain=_inside),
    "acos": Exact(mpmath.acos, single(0.0, -0.0, *EDGES), delicate=NEAR_THE_EDGE, domain=_inside),
    "atan": Exact(mpmath.atan, single(*SPECIAL, 1e-9, 0.5, -20.0, 1e9, 1e18, 1e150)),
    "sinh": Exact(mpmath.sinh, single(*SPECIAL, 1e-9, 0.5, -20.0, 80.0, 700.0), orders=3),
    "cosh": Exact(mpmath.cosh, single(*SPECIAL, 1e-9, 0.5, -20.0, 80.0, 700.0), orders=3),
    "asinh": Exact(mpmath.asinh, single(*SPECIAL[:-1], 1e-9, 0.5, -20.0, 1e9, 1e18, 1e150)),
    "acosh": Exact(
        mpmath.acosh,
        single(1e300, 1.5, 20.0, 1e9, 1e18, 1e150, 1 + 2.0**-23, 1 + 2.0**-52),
        delicate=single(1.0000001, 1.001),
        domain=lambda x: x > 1,
    ),
    "atanh": Exact(mpmath.atanh, single(0.0, -0.0, *EDGES), delicate=NEAR_THE_EDGE, domain=_inside),
    "atan2": Exact(
        mpmath.atan2,
        pairs(
            "0.0 1.0; 1.0 -0.0; -1.0 1.0; 3.0 -4.0; 1e300 1e300; 1e100 1.0; "
            "1e-300 1.0; 1.0 1e100; -1e-30 1e-9; 1e9 1e-9; 1e30 -1e30"
        ),
        strained=((1e-300, 1e-300), (1e-30, 1e-30), (1e-300, -1.0)),
        domain=lambda a, b: a != 0 or b > 0,
    ),
    "sinc": Exact(
        mpmath.sincpi,
        single(0.0, -0.0, 1.0, -1.0, 1e-9, 0.3, 0.7, 1.5, 2.0, -7.25),
        delicate=single(1e-300, 1e-30, -1e-3, 1000.3, 1e9, 1e15, -1e300),
    ),
    "sinc_derivative": Exact(
        _sinc_derivative,
        single(0.0, -0.0, 1.0, -1.0, 1e-300, 1e-9, -1e-3, 0.3, 0.49, 0.51, 0.7, 0.76, 1.6, 7.25),
        orders=1,
        calls=({"n": 1}, {"n": 2}, {"n": 3}),
        domain=lambda x: abs(x) < 1e3,  # where its series can be summed
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}

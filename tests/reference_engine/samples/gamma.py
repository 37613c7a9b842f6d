"""Samples of ops/gamma.py."""

from collections.abc import Callable
from typing import Any

import mpmath
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    ABOVE_ONE,
    BETWEEN_WHOLE,
    POSITIVE,
    Exact,
    Sample,
    any_broadcast,
    any_pair,
    any_shape,
    between,
    binary,
    by_mpmath,
    one,
    pairs,
    single,
    unary,
)

# On either side of where betaln is 0, which it is right to a few units of 1.
BELOW_ONE = between(0.2, 0.8)

ROWS: dict[str, list[Sample]] = {
    "lgamma": [*unary(POSITIVE), one(between(-1.8, -1.2), 3)],
    "digamma": [*unary(POSITIVE), one(between(-0.35, -0.1), 3)],
    "polygamma": [
        *unary(POSITIVE, n=1),
        one(POSITIVE, 3, n=0),
        one(POSITIVE, 3, n=2),
        one(BETWEEN_WHOLE, 3, n=1),
    ],
    "polygamma_drop": [
        *(Sample(s.draws, s.shapes, {"n": 0}) for s in binary(POSITIVE, POSITIVE)),
        Sample((POSITIVE, POSITIVE), ((3,), ()), {"n": 1}),
    ],
    "betaln": binary(BELOW_ONE, BELOW_ONE),
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "polygamma": any_shape(POSITIVE, n=st.integers(0, 2)),
    "polygamma_drop": any_broadcast(POSITIVE, POSITIVE, n=st.integers(0, 1)),
    "betaln": any_pair(ABOVE_ONE, ABOVE_ONE),
}


def _off_poles(x: float) -> bool:
    return x > 0 or x != round(x)


def _positive(a: float, b: float) -> bool:
    return a > 0 and b > 0


def _lgamma(x: Any) -> Any:
    if x > 0:
        return mpmath.loggamma(x)
    return mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x)


# The zeros 1 and 2 of lgamma, a zero on the left, both sides of where formulas change (1/2, 5/2),
# far out; then the zeros of digamma.
POINTS = single(1.0, 1e-300, -1e-300, 1e300, 1e-8, 0.499, 0.501, 1 + 1e-9, 1 - 1e-9) + single(
    2 - 1e-9, 2.0, 2.4999, 2.5001, 10.0, 171.7, 1e8, -0.4, -2.457024738
)
ZEROS = single(1.4616321449683623, 1.4617, -1.573498473162)
BOTH = pairs(
    "1 1; 1e-300 1e-300; 1e300 1e300; 0.5 0.5; 7.9 8.1; 8 8; 8 7.999; 20 3; 2.5 40; 1e10 1e10;"
    "3e7 2e7"
)
APART = pairs(
    "1 1e-12; 1e-12 1; 1e12 1; 1 1e12; 1e12 1e-12; 1e-12 1e12; 100 0.001; 0.001 100; 1e5 1; 1 1e5;"
    "1e16 1e3; 1e-8 1e8"
)

EXACT: dict[str, Exact] = {
    "lgamma": Exact(_lgamma, POINTS, delicate=ZEROS, domain=_off_poles),
    "digamma": Exact(mpmath.digamma, (*POINTS, *ZEROS), domain=_off_poles),
    "polygamma": Exact(
        lambda x, n: mpmath.psi(n, x),
        POINTS,
        calls=({"n": 0}, {"n": 1}, {"n": 2}, {"n": 5}),
        domain=_off_poles,
    ),
    "polygamma_drop": Exact(
        lambda a, b, n: mpmath.psi(n, a) - mpmath.psi(n, a + b),
        (*BOTH, *APART),
        orders=1,
        calls=({"n": 0}, {"n": 1}),
        domain=_positive,
    ),
    "betaln": Exact(
        lambda a, b: mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b),
        BOTH,
        delicate=APART,
        domain=_positive,
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}

"""Samples of ops/arithmetic.py."""

import mpmath

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    POSITIVE,
    REAL,
    SPECIAL,
    Exact,
    Sample,
    binary,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "add": binary(REAL, REAL),
    "subtract": binary(REAL, REAL),
    "multiply": binary(REAL, REAL),
    "divide": binary(REAL, AWAY_FROM_ZERO),
    "power": binary(POSITIVE, REAL),
    "negative": unary(REAL),
    "square": unary(REAL),
    "sqrt": unary(POSITIVE),
    "abs": unary(AWAY_FROM_ZERO),
}

EXACT: dict[str, Exact] = {
    "sqrt": Exact(
        mpmath.sqrt,
        single(1.0, 1e-300, 1e300, 1e-9, 0.3, 2.0, 1e9),
        orders=3,
        domain=lambda x: x > 0,
    ),
    "square": Exact(lambda x: x * x, single(*SPECIAL, 1e-9, -3.0, 1e9), orders=3),
}

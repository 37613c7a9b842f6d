"""Samples of ops/arithmetic.py."""

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    POSITIVE,
    REAL,
    Sample,
    binary,
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

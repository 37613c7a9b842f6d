"""Samples of ops/trigonometric.py."""

import mpmath

from tests.reference_engine.samples.drawing import (
    BETWEEN_POLES_OF_TAN,
    REAL,
    SPECIAL,
    Exact,
    Sample,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "sin": unary(REAL),
    "cos": unary(REAL),
    "tan": unary(BETWEEN_POLES_OF_TAN),
}

EXACT: dict[str, Exact] = {
    "sin": Exact(mpmath.sin, single(*SPECIAL, 1e-30, -3.0, 1000.0), orders=3),
    "cos": Exact(mpmath.cos, single(*SPECIAL, 1e-30, -3.0, 1000.0), orders=3),
    "tan": Exact(mpmath.tan, single(*SPECIAL, 1e-30, 1.5, -20.0), orders=3),
}

"""Samples of ops/special.py."""

import mpmath

from tests.reference_engine.samples.drawing import (
    REAL,
    SPECIAL,
    Exact,
    Sample,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "erf": unary(REAL),
}

EXACT: dict[str, Exact] = {
    "erf": Exact(mpmath.erf, single(*SPECIAL, 1e-30, -1e-8, 0.5, 3.0, -8.0, 26.0), orders=3),
}

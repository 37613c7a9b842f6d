"""Samples of ops/exponential.py."""

import mpmath

from tests.reference_engine.samples.drawing import (
    ABOVE_MINUS_ONE,
    POSITIVE,
    REAL,
    SPECIAL,
    Exact,
    Sample,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "exp": unary(REAL),
    "expm1": unary(REAL),
    "log": unary(POSITIVE),
    "log1p": unary(ABOVE_MINUS_ONE),
    "tanh": unary(REAL),
    "sigmoid": unary(REAL),
    "softplus": unary(REAL),
    "logistic_density": unary(REAL),
}

EXACT: dict[str, Exact] = {
    "exp": Exact(mpmath.exp, single(*SPECIAL, -1e-30, 80.0, -80.0, 800.0, -800.0), orders=3),
    "expm1": Exact(mpmath.expm1, single(*SPECIAL, 1e-30, -1e-8, 80.0, -80.0), orders=3),
    "log": Exact(
        mpmath.log,
        single(1.0, 1e-300, 1e300, 1e-9, 0.3, 2.0, 1e9, 1.0000001),
        orders=3,
        domain=lambda x: x > 0,
    ),
    "log1p": Exact(
        mpmath.log1p,
        single(0.0, -0.0, 1.0, 1e-300, -1e-300, 1e300, 1e-30, -0.5, -1e-8, 3.0, 1e9, -0.9999999),
        orders=3,
        domain=lambda x: x > -1,
    ),
    "tanh": Exact(mpmath.tanh, single(*SPECIAL, 1e-30, -1e-8, 0.5, 3.0, 20.0, -40.0), orders=3),
    "sigmoid": Exact(
        lambda x: 1 / (1 + mpmath.exp(-x)),
        single(*SPECIAL, 1e-30, -1e-8, 0.5, 20.0, -80.0, 80.0),
        orders=3,
    ),
    "softplus": Exact(
        lambda x: mpmath.log1p(mpmath.exp(x)),
        single(*SPECIAL, 1e-8, 0.5, 20.0, -80.0, 80.0),
        orders=3,
    ),
    "logistic_density": Exact(
        lambda x: mpmath.exp(-x) / (1 + mpmath.exp(-x)) ** 2,
        single(*SPECIAL, 0.5, 20.0, -80.0, 80.0),
    ),
}

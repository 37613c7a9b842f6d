"""Samples of ops/exponential.py."""

from collections.abc import Callable
from typing import Any

import mpmath
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    ABOVE_MINUS_ONE,
    POSITIVE,
    REAL,
    SPECIAL,
    Draw,
    Exact,
    Sample,
    any_pair,
    binary,
    by_mpmath,
    pairs,
    single,
)

PAIRS: dict[str, tuple[Draw, Draw]] = {
    "logaddexp": (REAL, REAL),
    "xlogy": (REAL, POSITIVE),
    "xlog1py": (REAL, ABOVE_MINUS_ONE),
}
ROWS: dict[str, list[Sample]] = {
    **{name: binary(*draws) for name, draws in PAIRS.items()},
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    **{name: any_pair(*draws) for name, draws in PAIRS.items()},
}


def _log_of_sum(a: Any, b: Any) -> Any:
    return max(a, b) + mpmath.log1p(mpmath.exp(-abs(a - b)))


LOGARITHM = single(1.0, 1e-300, 1e300, 1e-9, 0.3, 2.0, 1e9, 1.0000001)

EXACT: dict[str, Exact] = {
    "exp": Exact(mpmath.exp, single(*SPECIAL, -1e-30, 80.0, -80.0, 800.0, -800.0), orders=3),
    "exp2": Exact(
        lambda x: mpmath.mpf(2) ** x, single(*SPECIAL, -1e-30, 0.5, 120.0, -120.0, 1000.0), orders=3
    ),
    "expm1": Exact(mpmath.expm1, single(*SPECIAL, 1e-30, -1e-8, 80.0, -80.0), orders=3),
    "log": Exact(mpmath.log, LOGARITHM, orders=3, domain=lambda x: x > 0),
    "log2": Exact(
        lambda x: mpmath.log(x) / mpmath.log(2), LOGARITHM, orders=3, domain=lambda x: x > 0
    ),
    "log10": Exact(
        lambda x: mpmath.log(x) / mpmath.log(10), LOGARITHM, orders=3, domain=lambda x: x > 0
    ),
    "log1p": Exact(
        mpmath.log1p,
        single(0.0, -0.0, 1.0, 1e-300, -1e-300, 1e300, 1e-30, -0.5, -1e-8, 3.0, 1e9, -0.9999999),
        orders=3,
        domain=lambda x: x > -1,
    ),
    "tanh": Exact(
        mpmath.tanh,
        single(*SPECIAL, 1e-30, -1e-8, 0.5, 2.0, 20.0),
        orders=3,
        delicate=single(-3.0, 8.0),
    ),
    "sigmoid": Exact(
        lambda x: 1 / (1 + mpmath.exp(-x)),
        single(*SPECIAL, 1e-30, -1e-8, 0.5, 40.0, -80.0),
        orders=3,
        delicate=single(12.0, 20.0),
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
    "sech_squared": Exact(
        lambda x: mpmath.sech(x) ** 2,
        single(*SPECIAL, 0.5, 10.0, -40.0, 40.0),
        orders=3,
    ),
    "logaddexp": Exact(
        _log_of_sum,
        pairs(
            "0.0 -0.0; 1.0 1.0; 1.0 -1.0; 0.0 -50.0; -80.0 0.0; 1000.0 999.0; "
            "-1000.0 -1000.5; 1e-300 1e-300; 1e30 -1e30; 1e300 1e300; 0.5 1e-9"
        ),
    ),
    "xlogy": Exact(
        lambda a, b: a * mpmath.log(b),
        pairs(
            "0.0 1.0; -0.0 0.5; 1.0 1e300; 1e-300 0.5; 1e300 2.0; 1.0 1e-300; "
            "-1.0 1.0000001; 2.0 0.9999"
        ),
        domain=lambda a, b: b > 0,
    ),
    "xlog1py": Exact(
        lambda a, b: a * mpmath.log1p(b),
        pairs(
            "0.0 0.0; -0.0 -0.5; 1.0 1e300; 1e-300 0.5; 1e300 2.0; 1.0 1e-300; "
            "-1.0 1e-9; 2.0 -0.9999999; 3.0 -1e-30"
        ),
        domain=lambda a, b: b > -1,
    ),
    "log1mexp": Exact(
        lambda x: mpmath.log(-mpmath.expm1(-x)),
        single(1.0, 1e-300, 1e-30, 1e-9, 0.6, 0.7, 20.0, 80.0, 700.0, 1e300),
        orders=3,
        delicate=single(720.0),
        domain=lambda x: x > 0,
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}

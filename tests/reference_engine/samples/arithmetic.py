"""Samples of ops/arithmetic.py."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    BETWEEN_WHOLE,
    NEAR_PLUS_MINUS_ONE,
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
    "add": (REAL, REAL),
    "subtract": (REAL, REAL),
    "multiply": (REAL, REAL),
    "divide": (REAL, AWAY_FROM_ZERO),
    "power": (POSITIVE, REAL),
    "floor_divide": (BETWEEN_WHOLE, NEAR_PLUS_MINUS_ONE),
    "remainder": (BETWEEN_WHOLE, NEAR_PLUS_MINUS_ONE),
    "hypot": (AWAY_FROM_ZERO, AWAY_FROM_ZERO),
    "hypot_slope": (AWAY_FROM_ZERO, AWAY_FROM_ZERO),
}
ROWS: dict[str, list[Sample]] = {
    **{name: binary(*draws) for name, draws in PAIRS.items()},
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    **{name: any_pair(*draws) for name, draws in PAIRS.items()},
}

NOT_ZERO = tuple(x for x in SPECIAL if x != 0)
FAR_PAIRS = tuple((a, b) for a in (1.5, -1e300, 1e-300) for b in (2.0, -1e300, 1e-300))


def _cube_root(x: Any) -> Any:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


EXACT: dict[str, Exact] = {
    "add": Exact(lambda a, b: a + b, ((0.0, -0.0), (1.0, -1.0), *FAR_PAIRS)),
    "subtract": Exact(lambda a, b: a - b, ((0.0, -0.0), (1.0, -1.0), *FAR_PAIRS)),
    "multiply": Exact(lambda a, b: a * b, ((0.0, -0.0), (1.0, -1.0), (0.0, 1e300), *FAR_PAIRS)),
    "divide": Exact(
        lambda a, b: a / b,
        pairs(
            "0.0 1.0; -0.0 1e-9; 1.0 -1.0; 1e-100 1e-100; 1e200 1e200; 1.5 2.0; -1e300 2.0; "
            "1e-300 2.0; 1.5 -1e300; 1e-300 1e300"
        ),
        strained=((1e150, 1e-150), (1e-300, 1e-300), (1.0, 1e-150)),
        domain=lambda a, b: b != 0,
    ),
    "power": Exact(
        lambda a, b: a**b,
        pairs(
            "1.0 0.0; 2.0 -0.0; 1.0 -1.0; 1.0 1000.0; 1e-300 1.0; 1e300 -1.0; 1e-9 0.5; "
            "0.3 20.0; 1e9 -1.5; 1.0001 1000.0; 1e-20 1.5; 7.0 1e-300"
        ),
        domain=lambda a, b: a > 0,
    ),
    "negative": Exact(lambda x: -x, single(*SPECIAL)),
    "reciprocal": Exact(
        lambda x: 1 / x,
        single(*NOT_ZERO, 1e-9, 3.0, -1e9, 1e-150, 1e150),
        orders=3,
        domain=lambda x: x != 0,
    ),
    "square": Exact(lambda x: x * x, single(*SPECIAL, 1e-9, -3.0, 1e9), orders=3),
    "sqrt": Exact(
        mpmath.sqrt,
        single(1.0, 1e-300, 1e300, 1e-9, 0.3, 2.0, 1e9),
        orders=3,
        domain=lambda x: x > 0,
    ),
    "rsqrt": Exact(
        lambda x: 1 / mpmath.sqrt(x),
        single(1.0, 1e-300, 1e300, 1e-9, 0.3, 2.0, 1e9, 1e-37, 1e37),
        orders=3,
        domain=lambda x: x > 0,
    ),
    "cbrt": Exact(
        _cube_root,
        single(*NOT_ZERO, 8.0, -1e-9, 0.3, 1e9, 1e-37, 1e37),
        domain=lambda x: x != 0,
    ),
    "abs": Exact(abs, single(*NOT_ZERO, 3.0), domain=lambda x: x != 0),
    "remainder": Exact(
        lambda a, b: a - b * mpmath.floor(a / b),
        pairs(
            "1.0 1.5; -1.0 1.5; 1.0 -1.5; -1.0 -1.5; 1e-300 2.0; -1e-300 2.0; 1e9 0.3; "
            "5.0 1e300; 3.0 0.7; -1e15 7.0; 0.3 0.1"
        ),
        domain=lambda a, b: bool(b != 0 and np.remainder(a, b) != 0),
    ),
    "hypot": Exact(
        mpmath.hypot,
        pairs(
            "0.0 1.0; 1.0 -0.0; -1.0 1.0; 3.0 4.0; 1e300 1e300; 1e-300 1e-300; 1e300 1.0; "
            "1e-300 1.0; -1e-30 1e-9; 1e9 1e-9; 1e-25 -2e-25"
        ),
        domain=lambda a, b: (a, b) != (0, 0),
    ),
    "hypot_slope": Exact(
        lambda a, b: a / mpmath.hypot(a, b),
        pairs(
            "0.0 1.0; 1.0 -0.0; -1.0 1.0; 3.0 4.0; 1e300 1e300; 1e300 1.0; "
            "1e-300 1.0; -1e-9 1e-3; 1e9 1e3"
        ),
        strained=((1e-300, 1e-300),),
        domain=lambda a, b: (a, b) != (0, 0),
    ),
}

VALUES: dict[str, Callable[..., Any]] = {
    **{name: by_mpmath(exact) for name, exact in EXACT.items()},
    "floor_divide": lambda a, b: np.floor(a / b),
}

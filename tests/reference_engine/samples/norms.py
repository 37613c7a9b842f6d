"""Samples of ops/norms.py."""

from collections.abc import Callable
from math import prod
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    DISTINCT_SIZES,
    SPECIAL,
    Exact,
    Sample,
    any_reduction,
    any_shape,
    by_mpmath,
    one,
    reduction,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "norm": [
        *reduction(AWAY_FROM_ZERO, empty=False),
        one(AWAY_FROM_ZERO, 3, ord=1),
        one(AWAY_FROM_ZERO, 2, 3, ord=1, axis=0),
        one(DISTINCT_SIZES, 4, ord=np.inf),
        one(DISTINCT_SIZES, 2, 3, ord=np.inf, axis=1, keepdims=True),
        one(DISTINCT_SIZES, 2, 3, 2, ord=-np.inf, axis=(2, 0)),
        one(AWAY_FROM_ZERO, 2, 3, 2, ord=3, axis=(0, -1)),
        one(AWAY_FROM_ZERO, 2, 3, ord=1.5, keepdims=True),
        one(AWAY_FROM_ZERO, 2, 3, ord=0.5, axis=-1),
        one(AWAY_FROM_ZERO, ord=4),
    ],
    "abs_power": [
        *unary(AWAY_FROM_ZERO, exponent=2.5),
        one(AWAY_FROM_ZERO, 3, exponent=0.0),
        one(AWAY_FROM_ZERO, 3, exponent=-0.5),
    ],
    "signed_power": [
        *unary(AWAY_FROM_ZERO, exponent=2.5),
        one(AWAY_FROM_ZERO, 3, exponent=0.0),
        one(AWAY_FROM_ZERO, 3, exponent=-0.5),
    ],
}

EXPONENTS = st.sampled_from([-0.5, 0.0, 0.5, 1.0, 2.0, 2.5])
ORDERS = st.sampled_from([0.5, 1, 1.5, 2, 3, np.inf, -np.inf])

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "norm": any_reduction(DISTINCT_SIZES, ord=ORDERS),
    "abs_power": any_shape(AWAY_FROM_ZERO, exponent=EXPONENTS),
    "signed_power": any_shape(AWAY_FROM_ZERO, exponent=EXPONENTS),
}


def _norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """By NumPy's norm of vectors along one axis."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    places = tuple(a % x.ndim for a in axes)
    moved = np.moveaxis(x, places, range(x.ndim - len(places), x.ndim))
    flat = moved.reshape((*moved.shape[: x.ndim - len(places)], prod(x.shape[a] for a in places)))
    y = np.linalg.norm(flat, ord, axis=-1)
    return np.expand_dims(y, sorted(places)) if keepdims else y


def _signed(x: Any, exponent: float) -> Any:
    return mpmath.sign(x) * abs(x) ** mpmath.mpf(exponent)


POINTS = single(*(x for x in SPECIAL if x), 0.3, -7.0)
EXPONENT_CALLS = tuple({"exponent": e} for e in (-0.5, 0.5, 1.0, 2.0, 2.5))

EXACT: dict[str, Exact] = {
    "abs_power": Exact(
        lambda x, exponent: abs(x) ** mpmath.mpf(exponent),
        POINTS,
        calls=EXPONENT_CALLS,
        domain=lambda x: x != 0,
    ),
    "signed_power": Exact(_signed, POINTS, calls=EXPONENT_CALLS, domain=lambda x: x != 0),
}

VALUES: dict[str, Callable[..., Any]] = {
    "norm": _norm,
    "abs_power": by_mpmath(EXACT["abs_power"]),
    "signed_power": by_mpmath(EXACT["signed_power"]),
}

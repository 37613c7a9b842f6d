"""Samples of ops/activations.py."""

from collections.abc import Callable
from typing import Any

import mpmath
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    DISTINCT,
    REAL,
    SPECIAL,
    Exact,
    Sample,
    any_shape,
    by_mpmath,
    one,
    single,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "leaky_relu": [*unary(AWAY_FROM_ZERO), one(AWAY_FROM_ZERO, 3, negative_slope=0.3)],
    "elu": [*unary(AWAY_FROM_ZERO), one(AWAY_FROM_ZERO, 3, alpha=0.5)],
    "gelu": [*unary(REAL), *unary(REAL, approximate=True)],
    "hardtanh": [*unary(DISTINCT), one(DISTINCT, 15, min=0.0, max=1.0)],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "leaky_relu": any_shape(AWAY_FROM_ZERO, negative_slope=st.sampled_from([0.01, 0.2, 0.0, 1.5])),
    "elu": any_shape(AWAY_FROM_ZERO, alpha=st.sampled_from([1.0, 0.5, 2.0])),
    "gelu": any_shape(REAL, approximate=st.booleans()),
    "hardtanh": any_shape(
        DISTINCT, min=st.sampled_from([-1.0, -0.4]), max=st.sampled_from([1.0, 0.2])
    ),
}


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return x if x > 0 else alpha * mpmath.expm1(x)


def _selu(x: Any) -> Any:
    scale = mpmath.mpf("1.0507009873554804934193349852946")
    return scale * (x if x > 0 else mpmath.mpf("1.6732632423543772848170429916717") * _elu(x))


def _gelu(x: Any, approximate: bool = False) -> Any:
    if abs(x) > 1e6:  # both exponentials are far below every float, and mpmath's own range ends
        return max(x, 0)
    if not approximate:
        return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x / (1 + mpmath.exp(-2 * u))


def _hardtanh(x: Any, min: float = -1.0, max: float = 1.0) -> Any:
    return min if x < min else max if x > max else x


def _smooth(x: float) -> bool:
    return x != 0


NOT_ZERO = (1.0, -1.0, 1e300, -1e300)
BY_THE_KINK = single(1e-300, -1e-300)
FAR_LEFT = (1e-9, 0.5, -2.0, 5.0, -40.0, 40.0, 700.0)
FAR_OUT = (1e-9, 0.5, -5.0, 5.0, -20.0, 20.0, -80.0, 80.0, -700.0, 700.0)

EXACT: dict[str, Exact] = {
    "log_sigmoid": Exact(
        lambda x: -mpmath.log1p(mpmath.exp(-x)), single(*SPECIAL, *FAR_OUT), orders=3
    ),
    "leaky_relu": Exact(
        lambda x, negative_slope=0.01: x if x > 0 else negative_slope * x,
        single(*NOT_ZERO),
        strained=BY_THE_KINK,
        calls=({"negative_slope": 0.25},),
        domain=_smooth,
    ),
    "elu": Exact(
        _elu,
        single(*NOT_ZERO, *FAR_LEFT),
        strained=BY_THE_KINK,
        calls=({}, {"alpha": 0.5}),
        domain=_smooth,
        orders=3,
    ),
    "selu": Exact(
        _selu, single(*NOT_ZERO, *FAR_LEFT), strained=BY_THE_KINK, domain=_smooth, orders=3
    ),
    "gelu": Exact(
        _gelu,
        single(*SPECIAL, 1e-9, 0.5, -1.5, 5.0, -8.0, 12.0, 40.0),
        delicate=single(-3.0, -6.0, -12.0, -37.0),
        calls=({}, {"approximate": True}),
    ),
    "silu": Exact(lambda x: x / (1 + mpmath.exp(-x)), single(*SPECIAL, *FAR_OUT)),
    "mish": Exact(
        lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), single(*SPECIAL, *FAR_OUT)
    ),
    "hardtanh": Exact(
        _hardtanh,
        single(0.0, -0.0, 0.9999999, 1e-300, 1e300, -1e300),
        domain=lambda x: abs(x) != 1,
    ),
    "softsign": Exact(
        lambda x: x / (1 + abs(x)),
        single(*NOT_ZERO, 1e-9, 0.5, -20.0, 2.0**60),
        delicate=single(1e3, -1e9, 1e30),
        strained=BY_THE_KINK,
        domain=_smooth,
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}

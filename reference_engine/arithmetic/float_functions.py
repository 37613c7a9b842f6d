"""Arithmetic and smooth elementwise rows on float balls.

NumPy's elementary functions are trusted to LIBM of the result, four times what its vectorised ones
and glibc's document.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from reference_engine.arithmetic.float_balls import (
    GROWN,
    TINY,
    UNIT,
    FloatBall,
    Floats,
    as_float_ball,
    by_balls,
    enclosed,
    of_balls,
)
from reference_engine.traced import ROWS, Value

LIBM = 16 * 2 * UNIT  # relative


def add(a: Value, b: Value) -> FloatBall:
    a, b = as_float_ball(a), as_float_ball(b)
    total = enclosed(a.value + b.value, _either(a, b))
    endless = np.isinf(a.value) ^ np.isinf(b.value)
    if np.any(endless):  # a score of -inf stays what it is
        total.radius = np.where(endless, np.where(np.isinf(a.value), a.radii, b.radii), total.radii)
    return total


def subtract(a: Value, b: Value) -> FloatBall:
    return add(a, negative(b))


def _either(a: FloatBall, b: FloatBall) -> Any:
    if a.radius is None or b.radius is None:
        return 0.0 if a.radius is b.radius else a.radius if b.radius is None else b.radius
    return a.radius + b.radius


def multiply(a: Value, b: Value) -> FloatBall:
    a, b = as_float_ball(a), as_float_ball(b)
    radius: Any = TINY
    if a.radius is not None:
        radius = radius + a.radius * (np.abs(b.value) + (0.0 if b.radius is None else b.radius))
    if b.radius is not None:
        radius = radius + np.abs(a.value) * b.radius
    return enclosed(a.value * b.value, radius)


def divide(a: Value, b: Value) -> FloatBall:
    """|a / b - q| <= (r_a + |q| r_b) / (|b| - r_b) for q = a / b of the midpoints."""
    a, b = as_float_ball(a), as_float_ball(b)
    quotient = a.value / b.value
    size = np.abs(b.value)
    moved = a.radii if b.radius is None else a.radii + np.abs(quotient) * b.radius * GROWN
    left = size if b.radius is None else np.fmax(size - b.radius * GROWN, 0.0) * (1 - 4 * UNIT)
    return enclosed(quotient, np.where(left > 0, moved / left, np.nan) + TINY)


def negative(x: Value) -> FloatBall:
    x = as_float_ball(x)
    return FloatBall(-x.value, x.radius)


def power(x: Value, n: Value) -> FloatBall:
    """By repeated products if the exponent is a small whole number."""
    if not isinstance(n, FloatBall) or n.radius is None:
        exponent = np.asarray(n.value if isinstance(n, FloatBall) else n)
        if exponent.ndim == 0 and float(exponent) in (1.0, 2.0, 3.0, 4.0):
            product = x = as_float_ball(x)
            for _ in range(int(exponent) - 1):
                product = multiply(product, x)
            return product
        if exponent.ndim == 0 and float(exponent) in (0.5, -0.5, -1.0):
            root = x if float(exponent) == -1.0 else sqrt(x)
            return root if float(exponent) == 0.5 else divide(1.0, root)
    return as_float_ball(by_balls(ROWS["power"], (x, n), {}))


# Functions


def _monotone(function: Callable[[Floats], Any], low: float = -np.inf) -> Callable[..., FloatBall]:
    """An increasing function. Numbers below `low` are outside of its domain."""

    def value(x: Value) -> FloatBall:
        x = as_float_ball(x)
        middle = function(x.value)
        slack = LIBM * np.abs(middle) + TINY
        if x.radius is None:
            return enclosed(middle, slack)
        least, most = x.bounds
        below, above = function(least), function(most)
        reach = np.fmax(above - middle, middle - below) + LIBM * np.fmax(abs(above), abs(below))
        inside = (least > low) | (low == -np.inf)
        reach = np.where(inside & np.isfinite(above) & np.isfinite(below), reach, np.nan)
        return enclosed(middle, reach + slack)

    return value


def _wave(function: Callable[[Floats], Any]) -> Callable[..., FloatBall]:
    """A function whose slope is at most 1 in size."""

    def value(x: Value) -> FloatBall:
        x = as_float_ball(x)
        return enclosed(function(x.value), np.fmin(x.radii, 2.0) + LIBM)

    return value


def _logistic(x: Floats) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def _softplus(x: Floats) -> Any:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def exp(x: Value) -> FloatBall:
    """Of a score of -inf, which no finite change moves, exactly 0."""
    x = as_float_ball(x)
    found = _exp(x)
    gone = x.endless & (x.value < 0)
    if np.any(gone):
        found.radius = np.where(gone, 0.0, found.radii)
    return found


_exp, sqrt = _monotone(np.exp), _monotone(np.sqrt, 0.0)
log, _softplus_ball = _monotone(np.log, 0.0), _monotone(_softplus)


def size_of(x: Value) -> FloatBall:
    """|x|"""
    x = as_float_ball(x)
    if x.radius is None:
        return FloatBall(np.abs(x.value), None)
    low, high = x.bounds
    crosses = (low < 0) & (high > 0)
    top = np.fmax(-low, high)
    middle = np.where(crosses, top / 2, np.abs(x.value))
    return FloatBall(middle, np.where(crosses, top / 2 * GROWN + TINY, x.radius))


def _density(x: Value) -> FloatBall:
    """The logistic density: e / (1 + e)^2 with e = exp(-|x|)."""
    e = exp(negative(size_of(x)))
    return divide(e, power(add(1.0, e), 2))


def _normal_density(x: Value) -> FloatBall:
    from flint import arb

    scale = of_balls(np.array(1 / (2 * arb.pi()).sqrt(), dtype=object))
    return multiply(exp(multiply(-0.5, multiply(x, x))), scale)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "negative": negative,
    "power": power,
    "reciprocal": partial(divide, 1.0),
    "square": lambda x: multiply(x, x),
    "sqrt": sqrt,
    "rsqrt": lambda x: divide(1.0, sqrt(x)),
    "exp": exp,
    "expm1": _monotone(np.expm1),
    "log": log,
    "log1p": _monotone(np.log1p, -1.0),
    "tanh": _monotone(np.tanh),
    "atan": _monotone(np.arctan),
    "sigmoid": _monotone(_logistic),
    "softplus": _softplus_ball,
    "log_sigmoid": lambda x: negative(_softplus_ball(negative(x))),
    "logistic_density": _density,
    "sech_squared": lambda x: multiply(4.0, _density(multiply(2.0, x))),
    "one_minus_square": lambda x: multiply(subtract(1.0, x), add(1.0, x)),
    "gaussian": lambda x: exp(negative(multiply(x, x))),
    "normal_density": _normal_density,
    "sin": _wave(np.sin),
    "cos": _wave(np.cos),
    "abs": size_of,
}

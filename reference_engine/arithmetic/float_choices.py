"""Comparisons of float balls, and the rows that choose by comparisons.

Two balls are certainly equal if one was chosen from an array and has the same numbers as an element
of it. If an order is open, so is the choice, and a derivative contains those of all sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.arithmetic.float_balls import (
    GROWN,
    TINY,
    UNIT,
    Doubtful,
    FloatBall,
    Mask,
    as_float_ball,
    ties_matter,
)
from reference_engine.arithmetic.float_functions import multiply, negative
from reference_engine.rules import axes_of
from reference_engine.traced import Value


def _compared(a: Value, b: Value) -> tuple[Mask, Mask]:
    """Where a < b and where a > b for all numbers in the balls."""
    a, b = as_float_ball(a), as_float_ball(b)
    (low_a, high_a), (low_b, high_b) = a.bounds, b.bounds
    return np.less(high_a, low_b), np.greater(low_a, high_b)


def _stand(a: FloatBall, b: FloatBall) -> Mask:
    """Which balls are numbers that do not move, so that no move can decide their order."""
    exact = (a.radii == 0) & (b.radii == 0) if not ties_matter() else np.False_
    return np.asarray((a.endless & b.endless) | exact)


def _doubtful(value: Mask, doubt: Mask) -> Any:
    return Doubtful(np.asarray(value), doubt) if np.any(doubt) else np.asarray(value)


def comparison(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def value(a: Value, b: Value) -> Any:
        a, b = as_float_ball(a), as_float_ball(b)
        less, greater = _compared(a, b)
        open_ = ~(less | greater | _stand(a, b))
        return _doubtful(function(a.value, b.value), np.asarray(open_))

    return value


def _equal(a: Value, b: Value) -> Any:
    """Whether the balls are equal: an element equals itself, and everything that was chosen and has
    its numbers."""
    a, b = as_float_ball(a), as_float_ball(b)
    less, greater = _compared(a, b)
    same = (a.value == b.value) & (a.radii == b.radii)
    known = _stand(a, b) | (a is b or a.chosen or b.chosen)
    doubt = ~(less | greater) & ~(same & known)
    return _doubtful(same, np.asarray(doubt))


def _not(x: Any) -> Any:
    return Doubtful(~x.value, x.doubt) if isinstance(x, Doubtful) else ~_truths(x)


def _truths(x: Any) -> Any:
    if isinstance(x, FloatBall):
        return _not(_equal(x, 0.0))
    return np.asarray(x).astype(np.bool_)


def _doubt(x: Any) -> Any:
    return x.doubt if isinstance(x, Doubtful) else np.False_


def _without_doubt(x: Any) -> Any:
    return x.value if isinstance(x, Doubtful) else x


def _logical(function: Callable[[Any, Any], Any], settles: bool) -> Callable[..., Any]:
    """A logical operation. `settles`: the value of one operand that decides the result alone."""

    def value(a: Any, b: Any) -> Any:
        a, b = truths_of(a), truths_of(b)
        settled = (~_doubt(a) & (_without_doubt(a) == settles)) | (
            ~_doubt(b) & (_without_doubt(b) == settles)
        )
        doubt = (_doubt(a) | _doubt(b)) & ~settled
        return _doubtful(function(_without_doubt(a), _without_doubt(b)), np.asarray(doubt))

    return value


def truths_of(x: Any) -> Any:
    return x if isinstance(x, Doubtful) else _truths(x)


def _where_value(condition: Any, a: Value, b: Value) -> FloatBall:
    condition = truths_of(condition)
    a, b = as_float_ball(a), as_float_ball(b)
    chosen = _without_doubt(condition)
    value = np.where(chosen, a.value, b.value)
    doubt = _doubt(condition)
    if a.radius is None and b.radius is None and not np.any(doubt):
        return FloatBall(value, None)
    radius = np.where(chosen, a.radii, b.radii)
    if np.any(doubt):
        hull = _hull(a, b)
        value, radius = np.where(doubt, hull.value, value), np.where(doubt, hull.radii, radius)
    return FloatBall(value, np.broadcast_to(radius, value.shape))


def _hull(a: FloatBall, b: FloatBall) -> FloatBall:
    """Balls that contain both."""
    (low_a, high_a), (low_b, high_b) = a.bounds, b.bounds
    return between(np.minimum(low_a, low_b), np.maximum(high_a, high_b))


def between(low: Any, high: Any) -> FloatBall:
    """Balls that contain everything between two bounds."""
    middle = low / 2 + high / 2
    radius = (np.fmax(high - middle, middle - low) + TINY) * GROWN
    return FloatBall(middle, np.where(np.isinf(low) & (low == high), 0.0, radius))


def _sign(x: Value) -> FloatBall:
    x = as_float_ball(x)
    less, greater = _compared(x, 0.0)
    zero = (x.value == 0) & (x.radius is None) & (not ties_matter())
    open_ = ~(less | greater | zero)
    return FloatBall(np.sign(np.where(open_, 0.0, x.value)), np.where(open_, 1.0, 0.0))


def _larger(a: Value, b: Value) -> FloatBall:
    """The larger ball; if the order is open, a ball that contains all possible results."""
    a, b = as_float_ball(a), as_float_ball(b)
    less, greater = _compared(a, b)
    (low_a, high_a), (low_b, high_b) = a.bounds, b.bounds
    open_ = between(np.maximum(low_a, low_b), np.maximum(high_a, high_b))
    value = np.where(greater, a.value, np.where(less, b.value, open_.value))
    radius = np.where(greater, a.radii, np.where(less, b.radii, open_.radii))
    return FloatBall(value, radius)


def _smaller(a: Value, b: Value) -> FloatBall:
    return negative(_larger(negative(a), negative(b)))


def _clip(x: Value, min: Any = None, max: Any = None) -> FloatBall:
    x = x if min is None else _larger(x, min)
    return as_float_ball(x if max is None else _smaller(x, max))


def _leaky(x: Value, negative_slope: float = 0.01) -> FloatBall:
    return _where_value(comparison(np.greater)(x, 0.0), x, multiply(negative_slope, x))


def largest(x: Value, axis: Any = None, keepdims: bool = False) -> FloatBall:
    """The element whose lower bound is above all others. If there is none: a ball that contains all
    possible results, and is marked as not equal to any element."""
    x = as_float_ball(x)
    axes = axes_of(axis, x.ndim)
    last = tuple(range(x.ndim - len(axes), x.ndim))
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    rows = tuple(i for i in range(x.ndim) if i not in axes)
    flat = (math.prod(x.shape[i] for i in rows), math.prod(x.shape[i] for i in axes))

    def lines(y: Any) -> Any:
        return np.moveaxis(y, axes, last).reshape(flat)

    values, radii = lines(x.value), lines(x.radii)
    low, high = (lines(bound) for bound in x.bounds)
    best = np.argmax(values, axis=1)[:, None]
    others = high.copy()
    np.put_along_axis(others, best, -np.inf, axis=1)
    alone = np.take_along_axis(low, best, axis=1)[:, 0] > np.max(others, axis=1)
    open_ = between(np.max(low, axis=1), np.max(high, axis=1))
    own, reach = (np.take_along_axis(part, best, axis=1)[:, 0] for part in (values, radii))
    shape = kept if keepdims else tuple(x.shape[i] for i in rows)
    value = np.where(alone, own, open_.value).reshape(shape)
    rounded = np.where(open_.endless, 0.0, open_.radii + np.abs(open_.value) * UNIT + TINY)
    radius = np.where(alone, reach, rounded).reshape(shape)
    return FloatBall(value, radius, chosen=True)


def least(x: Value, axis: Any = None, keepdims: bool = False) -> FloatBall:
    found = largest(negative(x), axis, keepdims)
    return FloatBall(-found.value, found.radius, chosen=True)


def _number_of(x: Doubtful, axis: Any = None, keepdims: bool = False) -> FloatBall:
    """How many comparisons are true, but at least one: rules count the elements that attain an
    extreme."""
    axes = axes_of(axis, x.ndim)

    def count(mask: Mask) -> Any:
        return np.sum(mask, axis=axes, keepdims=keepdims, dtype=np.float64)

    return between(np.fmax(count(x.value & ~x.doubt), 1.0), np.fmax(count(x.value | x.doubt), 1.0))


CHOICES: dict[str, Callable[..., Any]] = {
    "sign": _sign,
    "relu": lambda x: _larger(x, 0.0),
    "leaky_relu": _leaky,
    "maximum": _larger,
    "minimum": _smaller,
    "clip": _clip,
    "hardtanh": lambda x, min=-1.0, max=1.0: _clip(x, min, max),
    "max": largest,
    "min": least,
    "where": _where_value,
    "less": comparison(np.less),
    "less_equal": comparison(np.less_equal),
    "greater": comparison(np.greater),
    "greater_equal": comparison(np.greater_equal),
    "equal": _equal,
    "not_equal": lambda a, b: _not(_equal(a, b)),
    "logical_and": _logical(np.logical_and, False),
    "logical_or": _logical(np.logical_or, True),
    "logical_not": lambda x: _not(truths_of(x)),
}

DECIDING: dict[str, Callable[..., Any]] = {
    **{name: CHOICES[name] for name in ("where", "logical_and", "logical_or", "logical_not")},
    "sum": _number_of,
}
"""The rows that take comparisons of which some are open."""

"""Sums and products of arrays of float balls.

A sum of n terms, added in any order, is off by at most g(n) times the sum of their sizes, with g(n)
= n u / (1 - n u). (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.) Sums of
small multiples of one number are exact, so terms are cut into such multiples and small rests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.arithmetic.float_balls import (
    TINY,
    UNIT,
    FloatBall,
    Floats,
    as_float_ball,
    by_balls,
    enclosed,
)
from reference_engine.arithmetic.float_choices import largest, least
from reference_engine.arithmetic.float_functions import (
    add,
    divide,
    exp,
    log,
    multiply,
    power,
    size_of,
    sqrt,
    subtract,
)
from reference_engine.arithmetic.float_moves import linear, summed
from reference_engine.rules import axes_of
from reference_engine.traced import ROWS, Value

USUAL = 2.0**400  # sums and products of smaller numbers do not overflow


def _sum(x: Value, axis: Any = None, keepdims: bool = False) -> FloatBall:
    x = as_float_ball(x)
    axes = axes_of(axis, x.ndim)
    terms = math.prod(x.shape[i] for i in axes)

    def total(part: Any) -> Any:
        return np.sum(part, axis=axes, keepdims=keepdims)

    first = np.zeros(x.shape)
    if _is_usual(x.value):  # then sums of multiples are exact, in any order
        width = 52 - math.ceil(math.log2(terms + 1))
        first = _nearest_multiples(x.value, _exponent(x.value) - width)
    rest = x.value - first
    radius = summed(terms) * total(np.abs(rest))
    if x.radius is not None:
        radius = radius + total(x.radius)
    return enclosed(total(first) + total(rest), radius * (1 + 2 * summed(terms)))


def _count(x: FloatBall, axis: Any) -> int:
    return math.prod(x.shape[i] for i in axes_of(axis, x.ndim))


def _mean(x: Value, axis: Any = None, keepdims: bool = False) -> FloatBall:
    x = as_float_ball(x)
    return divide(_sum(x, axis, keepdims), float(_count(x, axis)))


def _center(x: Value, axis: Any = None) -> FloatBall:
    return subtract(x, _mean(x, axis, True))


def _var(x: Value, axis: Any = None, correction: float = 0, keepdims: bool = False) -> FloatBall:
    x = as_float_ball(x)
    free = max(_count(x, axis) - correction, 0)
    return divide(_sum(power(_center(x, axis), 2), axis, keepdims), float(free))


def _std(x: Value, axis: Any = None, correction: float = 0, keepdims: bool = False) -> FloatBall:
    return sqrt(_var(x, axis, correction, keepdims))


def _norm(x: Value, ord: float = 2, axis: Any = None, keepdims: bool = False) -> FloatBall:
    if ord == 2:
        return sqrt(_sum(multiply(x, x), axis, keepdims))
    if ord == 1:
        return _sum(size_of(x), axis, keepdims)
    if abs(ord) == np.inf:
        return (largest if ord > 0 else least)(size_of(x), axis, keepdims)
    return as_float_ball(
        by_balls(ROWS["norm"], (x,), {"ord": ord, "axis": axis, "keepdims": keepdims})
    )


def _shift(x: FloatBall, axis: Any) -> Floats:
    largest = np.max(x.value, axis=axes_of(axis, x.ndim), keepdims=True)
    return np.where(np.isfinite(largest), largest, 0.0)


def _logsumexp(x: Value, axis: Any = -1, keepdims: bool = False) -> FloatBall:
    x = as_float_ball(x)
    shift = _shift(x, axis)
    total = log(_sum(exp(subtract(x, shift)), axis, keepdims))
    return add(shift if keepdims else shift.reshape(total.shape), total)


def _softmax(x: Value, axis: Any = -1) -> FloatBall:
    x = as_float_ball(x)
    e = exp(subtract(x, _shift(x, axis)))
    return divide(e, _sum(e, axis, True))


def _no_scale(x: Value, axis: Any) -> Floats:
    axes = axes_of(axis, x.ndim)
    return np.ones(tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def _bilinear(name: str, terms: Callable[..., int] | None = None) -> Callable[..., FloatBall]:
    """A row that is linear in each of two arrays. `terms` gives, from their shapes and the
    keywords, how many products each number of the result is the sum of; None: the products are
    counted."""
    row = ROWS[name]

    def value(a: Value, b: Value, **keywords: Any) -> FloatBall:
        a, b = as_float_ball(a), as_float_ball(b)

        def product(left: Any, right: Any) -> Any:
            return np.asarray(row.raw(left, right, **keywords))

        if terms is None:
            count = float(np.max(product(np.ones(a.shape), np.ones(b.shape)), initial=0.0))
        else:
            count = terms(a.shape, b.shape, **keywords)
        size = np.abs(b.value)
        found, rounding = _product_of_parts(product, a.value, b.value, count)
        radius = np.fmin(rounding, summed(count + 2) * product(np.abs(a.value), size))
        if b.radius is not None:
            radius = radius + product(np.abs(a.value), b.radius)
        if a.radius is not None:
            radius = radius + product(a.radius, size + b.radii)
        return enclosed(found, radius * (1 + 2 * summed(count + 2)) + TINY * count)

    return value


def _product_of_parts(
    product: Callable[[Any, Any], Any], a: Floats, b: Floats, count: float
) -> tuple[Any, Any]:
    """The product of two arrays, whose elements are sums of `count` terms, and a bound on its
    error. Both arrays are cut into parts whose products are sums of whole numbers below 2^53, which
    are exact in any order. (Ozaki, Ogita, Oishi and Rump, Error-free transformations of matrix
    multiplication, Numerical Algorithms 59, 2012.)"""
    if not (_is_usual(a) and _is_usual(b)):
        return product(a, b), np.inf
    bits = (53 - math.ceil(math.log2(count + 1))) // 2
    (a_1, a_2, a_3), (b_1, b_2, b_3) = _parts(a, bits), _parts(b, bits)
    second = product(a_1, b_2) + product(a_2, b_1)
    rest = product(a_1, b_3) + product(a_2, b_2 + b_3) + product(a_3, b)
    left = np.max(np.abs(a), initial=0.0) * np.max(np.abs(b), initial=0.0) * 2.0 ** (3 - 2 * bits)
    rounding = 4 * UNIT * (np.abs(second) + np.abs(rest)) + summed(count + 2) * count * left
    return product(a_1, b_1) + (second + rest), rounding


def _is_usual(x: Floats) -> bool:
    """Whether all numbers are far enough from overflow that their sums and products are finite."""
    return bool(np.max(np.abs(x), initial=0.0) <= USUAL)


def _parts(x: Floats, bits: int) -> tuple[Floats, Floats, Floats]:
    """Three arrays with the sum x: multiples of a power of two with at most this many bits,
    multiples of a smaller power of two, and the rest."""
    exponent = _exponent(x)
    first = _nearest_multiples(x, exponent - bits)
    second = _nearest_multiples(x - first, exponent - 2 * bits)
    return first, second, x - first - second


def _exponent(x: Floats) -> int:
    """The exponent of a power of two that is larger than all numbers."""
    return math.frexp(float(np.max(np.abs(x), initial=0.0)))[1]


def _nearest_multiples(x: Floats, exponent: int) -> Floats:
    shift = math.ldexp(1.5, 52 + exponent)
    return (x + shift) - shift


def _einsum(*xs: Value, subscripts: str) -> FloatBall:
    if len(xs) == 2:
        return _bilinear("einsum")(*xs, subscripts=subscripts)
    if len(xs) == 1:
        return linear("einsum")(*xs, subscripts=subscripts)
    return as_float_ball(by_balls(ROWS["einsum"], xs, {"subscripts": subscripts}))


SUMS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "mean": _mean,
    "centered": _center,
    "var": _var,
    "std": _std,
    "norm": _norm,
    "logsumexp": _logsumexp,
    "log_softmax": lambda x, axis=-1: subtract(x, _logsumexp(x, axis, True)),
    "softmax": _softmax,
    "safe_scale": _no_scale,
    "matmul": _bilinear("matmul", lambda a, b: a[-1]),
    "outer": _bilinear("outer", lambda a, b: 1),
    "einsum": _einsum,
    "conv1d": _bilinear("conv1d", lambda x, w, **_: math.prod(w[1:])),
    "conv2d": _bilinear("conv2d", lambda x, w, **_: math.prod(w[1:])),
    "conv_input": _bilinear("conv_input", lambda x, w, **keywords: math.prod(w)),
    "conv_weight": _bilinear("conv_weight", lambda x, y, **_: math.prod(y) // y[1]),
}

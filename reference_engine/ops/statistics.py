"""Variance and standard deviation, of the population by default, or with a correction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.floats import Array, in_float32
from reference_engine.op import Op, Point, Rounding, internal, row
from reference_engine.ops.arithmetic import divide
from reference_engine.ops.norms import euclidean
from reference_engine.ops.reductions import count_along
from reference_engine.ops.selection import equal, where
from reference_engine.rules import Reduction, SelfAdjoint, axes_of
from reference_engine.traced import Value

ROUNDING: Rounding = "inputs"

SOURCE = "Chan, Golub, LeVeque, Algorithms for computing the sample variance (1983)"


def _center(x: Array, axis: Any = None) -> Array:
    """x - mean(x) along the axes.

    A second mean removes the rounding error of the first, and all of it if the elements are equal.
    """
    first = x - np.mean(x, axis=axis, keepdims=True)
    return first - np.mean(first, axis=axis, keepdims=True)


centered: Op = internal(
    "centered",
    in_float32(_center),
    SelfAdjoint(lambda g, y, x, axis=None: centered(g, axis=axis)),
    keywords={"axis": None},
).says(
    "x - mean(x) along the axes",
    "centered: an orthogonal projection, which is its own transpose",
    stability="the mean is subtracted twice: what its rounding left behind goes",
)


def _freedom(x: Value, axis: Any, correction: float) -> float:
    """The number of elements minus the correction, and at least 0."""
    return max(count_along(x, axis) - correction, 0)


@in_float32
def _var_value(x: Any, *, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    squares = np.sum(np.square(_center(x, axis)), axis=axis, keepdims=keepdims)
    return np.divide(squares, _freedom(x, axis, correction))


def _var_part(g: Value, y: Value, x: Value, axis: Any, correction: float = 0) -> Value:
    free = _freedom(x, axis, correction)
    return g * (centered(x, axis=axis) * 2 / (free if free else math.nan))


var: Op = row("var", _var_value, Reduction(_var_part), aliases=("variance",)).says(
    "sum((x - mean(x))^2) / (n - correction) over the n elements along the axes",
    "2 (x - mean(x)) / (n - correction)",
    domain="n > correction",
    stability="in two passes, the mean corrected: mean(x^2) - mean(x)^2 would cancel",
)


@in_float32
def _std_value(x: Any, *, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    free = math.sqrt(_freedom(x, axis, correction))
    x = _center(x, axis)
    axes = axes_of(axis, x.ndim)
    y = np.divide(euclidean(x, axes), free)
    return y if keepdims else np.squeeze(y, axis=axes)


def _std_part(g: Value, y: Value, x: Value, axis: Any, correction: float = 0) -> Value:
    """g (x - mean(x)) / (y (n - correction)); the divisor is made safe before dividing."""
    free = _freedom(x, axis, correction)
    zero = equal(y, 0)
    ratio = divide(centered(x, axis=axis), where(zero, 1.0, y))
    return where(zero, 0.0, g * (ratio / (free if free else math.nan)))


def _std_kinks(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    largest = np.max(x, axis=axis, keepdims=keepdims)
    constant = largest == np.min(x, axis=axis, keepdims=keepdims)
    return constant & (count_along(x, axis) > 1)


std: Op = row(
    "std",
    _std_value,
    Reduction(_std_part),
    points=(
        Point("all elements equal", "kink", ([2.0, 2.0],), ([0.0, 0.0],)).because(
            "the subgradient of least norm; (x - mean(x)) / std(x) itself is 0 / 0",
            tensorflow=([float("nan"), float("nan")],),
            jax=([np.nan, np.nan],),
        ),
        Point("the squares overflow", "limit", ([-1e200, 1e200],), ([-0.5, 0.5],)).because(
            "the variance is inf in the frameworks", frameworks=([0.0, 0.0],)
        ),
    ),
    kinks_at=_std_kinks,
).says(
    "sqrt(sum((x - mean(x))^2) / (n - correction)) over the n elements along the axes",
    "(x - mean(x)) / (std(x) (n - correction))",
    domain="n > correction",
    stability="the norm of x - mean(x), scaled so that no square overflows or underflows",
)

"""Normalised exponentials, each shifted by its largest element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.floats import Array, in_float32
from reference_engine.op import Op, Point, row
from reference_engine.ops.reductions import sum_
from reference_engine.ops.selection import where
from reference_engine.rules import Reduction, SelfAdjoint, Tangents, axes_of
from reference_engine.traced import Value, to_array

DOMAIN = "x < inf; an x = -inf is left out, as by a mask"
INF, NAN = float("inf"), float("nan")
MASKED, NOTHING, INFINITE = ([-INF, 0.0, 0.0],), ([-INF, -INF],), ([INF, 0.0],)


def _peak(x: Array, axis: Any) -> tuple[Array, Array]:
    """m, the largest x along the axes, and the sum of exp(x - m) over all other elements.

    Both keep the axes at length 1. The largest element's own term, 1, is left out, so that log1p
    keeps the digits of a sum much smaller than 1. (Blanchard, Higham, Higham, Accurately computing
    the log-sum-exp and softmax functions, IMA J. Numer. Anal. 41, 2021.)
    """
    axes = axes_of(axis, x.ndim)
    kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    if not x.size:
        return np.full(kept, -np.inf, x.dtype), np.zeros(kept, x.dtype)
    last = tuple(range(x.ndim - len(axes), x.ndim))
    moved = x if axes == last else np.moveaxis(x, axes, last)
    flat = moved.reshape((-1, math.prod([x.shape[i] for i in axes])))
    largest = (np.arange(len(flat)), flat.argmax(axis=-1))
    m = flat[largest][:, None]
    e = np.exp(flat - np.where(np.isfinite(m), m, 0))
    e[largest] = 0
    return m.reshape(kept), np.add.reduce(e, axis=-1).reshape(kept)


def _floating(x: Any) -> Array:
    return x if x.dtype.kind == "f" else np.asarray(x, np.float64)


@in_float32
def _logsumexp_value(x: Any, *, axis: Any = -1, keepdims: bool = False) -> Any:
    x = _floating(x)
    m, others = _peak(x, axis)
    y = m + np.log1p(others)
    return y if keepdims else y.squeeze(axis=axes_of(axis, x.ndim))


@in_float32
def _log_softmax_value(x: Any, *, axis: Any = -1) -> Any:
    x = _floating(x)
    m, others = _peak(x, axis)
    return (x - m) - np.log1p(others)


@in_float32
def _softmax_value(x: Any, *, axis: Any = -1) -> Any:
    x = _floating(x)
    axes = axes_of(axis, x.ndim)
    e = np.exp(x - np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf))
    e /= np.add.reduce(e, axis=axes, keepdims=True)
    return e


def _leading(weights: Value, axis: Any) -> Array:
    """True at one largest element along the axes. The choice among equal ones only affects
    accuracy."""
    plain = to_array(weights).astype(np.float64)
    axes = axes_of(axis, plain.ndim)
    kept = [i for i in range(plain.ndim) if i not in axes]
    order = (*kept, *axes)
    moved = np.transpose(plain, order)
    mask = np.zeros(moved.shape, np.bool_)
    if plain.size:
        shape = (*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :]))
        places = moved.reshape(shape).argmax(axis=-1)[..., None]
        np.put_along_axis(mask.reshape(shape), places, True, axis=-1)
    return np.transpose(mask, np.argsort(order))


def _total(values: Value, axis: Any) -> Value:
    return sum_(values, axis=axis, keepdims=True)


def _from_leading(g: Value, leading: Array, axis: Any) -> Value:
    """g minus its value at the leading element."""
    return g - _total(where(leading, g, 0.0), axis)


def _softmax_product(g: Value, y: Value, x: Value, axis: Any = -1) -> Value:
    g = _from_leading(g, _leading(y, axis), axis)
    return y * (g - _total(y * g, axis))


softmax: Op = row(
    "softmax",
    _softmax_value,
    SelfAdjoint(_softmax_product),
    points=(
        Point("an x = -inf", "limit", MASKED, ([0.0, 0.0, 0.0],), value=[0.0, 0.5, 0.5]),
        Point("all x = -inf", "pole", NOTHING, ([NAN, NAN],), value=NAN).because("0 / 0"),
    ),
).says(
    "exp(x) / sum(exp(x)) along an axis",
    "y_dot = y (x_dot - sum(y x_dot)), a symmetric matrix",
    domain=DOMAIN,
    stability="x_dot is counted from its value at the largest y: where that is nearly 1, "
    "x_dot - sum(y x_dot) would cancel",
    source="Bridle, Probabilistic interpretation of feedforward network outputs (1990)",
)


def _log_softmax_push(x_dot: Value, y: Value, x: Value, axis: Any = -1) -> Value:
    x_dot = _from_leading(x_dot, _leading(x, axis), axis)
    return x_dot - _total(softmax(x, axis=axis) * x_dot, axis)


def _log_softmax_pull(y_bar: Value, y: Value, x: Value, axis: Any = -1) -> Value:
    """y_bar - p sum(y_bar). At the largest p, 1 - p is computed as the sum of the others."""
    p, leading = softmax(x, axis=axis), _leading(x, axis)
    others = _total(where(leading, 0.0, p), axis)
    theirs = _total(where(leading, 0.0, y_bar), axis)
    return where(leading, y_bar * others - p * theirs, y_bar - p * _total(y_bar, axis))


log_softmax: Op = row(
    "log_softmax",
    _log_softmax_value,
    Tangents(_log_softmax_push, transposes=(_log_softmax_pull,)),
    points=(
        Point("an x = -inf", "limit", MASKED, ([1.0, -0.5, -0.5],)),
        Point("all x = -inf", "pole", NOTHING, ([NAN, NAN],), value=NAN).because("-inf + inf"),
    ),
).says(
    "x - logsumexp(x) along an axis",
    "y_dot = x_dot - sum(softmax(x) x_dot)",
    domain=DOMAIN,
    stability="1 - softmax at the largest x is the sum of the others, and x_dot is counted "
    "from its value there",
    source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (2021)",
)

logsumexp: Op = row(
    "logsumexp",
    _logsumexp_value,
    Reduction(lambda g, y, x, axis: g * softmax(x, axis=axis)),
    rounding="sums",
    points=(
        Point("an x = -inf", "limit", MASKED, ([0.0, 0.5, 0.5],)),
        Point("all x = -inf", "pole", NOTHING, ([NAN, NAN],), value=-INF).because("0 / 0"),
        Point(
            "an x = inf",
            "pole",
            INFINITE,
            ([NAN, NAN],),
            value=INF,
            differs={
                "torch": ([NAN, 0.0],),
                "tensorflow": ([NAN, 0.0],),
                "jax": ([NAN, 0.0],),
            },
        ),
    ),
).says(
    "log(sum(exp(x))) along an axis",
    "softmax(x)",
    domain=DOMAIN,
    source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (2021)",
)

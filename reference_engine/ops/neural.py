"""Normalised exponentials, each shifted by its largest element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import Array, in_float32
from reference_engine.op import Op, Point, register
from reference_engine.ops.reductions import sum_
from reference_engine.rules import Reduction, SelfAdjoint, Tangents, axes_of
from reference_engine.traced import Value

FAMILY = "neural"
AXIS = {"axis": -1}
DOMAIN = "x < inf; an x = -inf is left out, as by a mask"
INF, NAN = float("inf"), float("nan")
MASKED, NOTHING, INFINITE = ([-INF, 0.0, 0.0],), ([-INF, -INF],), ([INF, 0.0],)


def _peak(x: Array, axis: Any) -> tuple[Array, Array]:
    """m, the largest x along the axes, and the sum of exp(x - m) over all the other elements.

    Both keep the axes at length 1. The largest element's own 1 is left out, so that log1p keeps the
    digits of a sum much smaller than 1. (Blanchard, Higham, Higham, Accurately computing the
    log-sum-exp and softmax functions, IMA J. Numer. Anal. 41, 2021.)
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
def _logsumexp_value(x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    x = _floating(x)
    m, others = _peak(x, axis)
    y = m + np.log1p(others)
    return y if keepdims else y.squeeze(axis=axes_of(axis, x.ndim))


@in_float32
def _log_softmax_value(x: Any, axis: Any = -1) -> Any:
    x = _floating(x)
    m, others = _peak(x, axis)
    return (x - m) - np.log1p(others)


@in_float32
def _softmax_value(x: Any, axis: Any = -1) -> Any:
    x = _floating(x)
    axes = axes_of(axis, x.ndim)
    e = np.exp(x - np.maximum.reduce(x, axis=axes, keepdims=True, initial=-np.inf))
    e /= np.add.reduce(e, axis=axes, keepdims=True)
    return e


def _softmax_product(g: Value, y: Value, x: Value, axis: Any = -1) -> Value:
    return y * (g - sum_(y * g, axis=axis, keepdims=True))


softmax: Op = register(
    Op(
        "softmax",
        _softmax_value,
        SelfAdjoint(_softmax_product),
        family=FAMILY,
        keywords=AXIS,
        formula="exp(x) / sum(exp(x)) along an axis",
        derivative="y_dot = y (x_dot - sum(y x_dot)), a symmetric matrix",
        domain=DOMAIN,
        points=(
            Point("an x = -inf", "limit", MASKED, ([0.0, 0.0, 0.0],), value=[0.0, 0.5, 0.5]),
            Point("all x = -inf", "pole", NOTHING, ([NAN, NAN],), value=NAN, reason="0 / 0"),
        ),
        source="Bridle, Probabilistic interpretation of feedforward network outputs (1990)",
    )
)


def _log_softmax_push(x_dot: Value, y: Value, x: Value, axis: Any = -1) -> Value:
    return x_dot - sum_(softmax(x, axis=axis) * x_dot, axis=axis, keepdims=True)


log_softmax: Op = register(
    Op(
        "log_softmax",
        _log_softmax_value,
        Tangents(_log_softmax_push),
        family=FAMILY,
        keywords=AXIS,
        formula="x - logsumexp(x) along an axis",
        derivative="y_dot = x_dot - sum(softmax(x) x_dot)",
        domain=DOMAIN,
        points=(
            Point("an x = -inf", "limit", MASKED, ([1.0, -0.5, -0.5],)),
            Point("all x = -inf", "pole", NOTHING, ([NAN, NAN],), value=NAN, reason="-inf + inf"),
        ),
        source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (2021)",
    )
)

logsumexp: Op = register(
    Op(
        "logsumexp",
        _logsumexp_value,
        Reduction(lambda g, y, x, axis: g * softmax(x, axis=axis)),
        family=FAMILY,
        keywords={"axis": -1, "keepdims": False},
        formula="log(sum(exp(x))) along an axis",
        derivative="softmax(x)",
        domain=DOMAIN,
        points=(
            Point("an x = -inf", "limit", MASKED, ([0.0, 0.5, 0.5],)),
            Point("all x = -inf", "pole", NOTHING, ([NAN, NAN],), value=-INF, reason="0 / 0"),
            Point(
                "an x = inf",
                "pole",
                INFINITE,
                ([NAN, NAN],),
                value=INF,
                differs={"torch": ([NAN, 0.0],), "tensorflow": ([NAN, 0.0],)},
            ),
        ),
        source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (2021)",
        rounding="sums",
    )
)

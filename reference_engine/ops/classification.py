"""Losses of classifiers: the cross entropy of logits and classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import Array, all_in_float32, in_float32
from reference_engine.op import Composite, Op, Rounding, composite, internal
from reference_engine.ops.losses import REDUCED, reduced
from reference_engine.ops.neural import log_softmax, logsumexp, softmax
from reference_engine.ops.reductions import mean, sum_
from reference_engine.ops.selection import where
from reference_engine.ops.shape import expand_dims
from reference_engine.rules import Linear, Tangents
from reference_engine.traced import Value, shape_of, to_array

ROUNDING: Rounding = "sums"

CLASSES = "the classes are axis 1 of the logits, or their only axis"


def _class_axis(logits: Value) -> int:
    """The axis of the classes: axis 1, or the only one. Raises ValueError for a number."""
    ndim = len(shape_of(logits))
    if not ndim:
        raise ValueError("there must be an axis of classes")
    return 1 if ndim > 1 else 0


def _own(logits: Value, labels: Value) -> tuple[Array, Array, int]:
    """A mask of each sample's label among the classes, a mask of valid labels, and the axis of the
    classes.

    Raises ValueError if the labels do not have the shape of the logits without the axis of classes.
    """
    axis, shape, at = _class_axis(logits), shape_of(logits), to_array(labels)
    if at.shape != shape[:axis] + shape[axis + 1 :]:
        raise ValueError(f"labels must have the shape {shape[:axis] + shape[axis + 1 :]}")
    classes = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
    own = classes == np.expand_dims(at, axis)
    return own, (at >= 0) & (at < shape[axis]), axis


def _cross_entropy(
    logits: Value, labels: Value, *, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Value:
    """logsumexp of the differences from the label's logit, whose own difference is the constant
    0."""
    own, known, axis = _own(logits, labels)
    label = sum_(where(own, logits, 0.0), axis=axis, keepdims=True)
    d = where(own, 0.0, logits - label)
    terms = logsumexp(d, axis=axis)
    if label_smoothing:
        terms = terms - label_smoothing * mean(d, axis=axis)
    return reduced(where(known, terms, np.nan), reduction)


cross_entropy: Composite = composite(
    "cross_entropy", _cross_entropy, aliases=("cross_entropy_loss",), kinds={1: "int"}
).says(
    f"-log(softmax(logits)) at the labels, whole numbers; {CLASSES}. With label_smoothing "
    "e: 1 - e times this plus e times the mean of -log(softmax(logits)) over the classes; nan for "
    "a label that is no class" + REDUCED,
    "softmax(logits) - one_hot(labels), without label_smoothing",
    domain="finite logits, 0 <= labels < number of classes",
    stability="as logsumexp of the differences to the label's own logit: softmax - 1 would lose "
    "every digit of the label's gradient, and of the loss, where the label is all but certain",
    source="torch.nn.functional.cross_entropy",
)


def _sum_of_others_value(x: Any, *, axis: int) -> Any:
    """The sum of the elements before and after each element. Nothing is subtracted from a total."""
    x = np.moveaxis(np.asarray(x), axis, -1)
    others = np.zeros_like(x)
    others[..., 1:] = np.cumsum(x[..., :-1], axis=-1)
    others[..., :-1] += np.cumsum(x[..., :0:-1], axis=-1)[..., ::-1]
    return np.moveaxis(others, -1, axis)


sum_of_others: Op = internal(
    "sum_of_others",
    in_float32(_sum_of_others_value),
    Linear(lambda g, x, axis: sum_of_others(g, axis=axis)),
).says(
    "for every element the sum of the others along the axis",
    "sum_of_others; it is its own transpose",
)


@all_in_float32
def _soft_nll_value(logits: Any, q: Any, *, axis: int) -> Any:
    return -np.sum(q * log_softmax.raw(logits, axis=axis), axis=axis)


def _soft_nll_slope(logits: Value, q: Value, axis: int) -> Value:
    """p_i times the sum of the other q, minus q_i times the sum of the other p. This equals p_i
    sum(q) - q_i, which would lose every digit if both are close to 1."""
    p = softmax(logits, axis=axis)
    return p * sum_of_others(q, axis=axis) - q * sum_of_others(p, axis=axis)


def _soft_nll_push(x_dot: Value, y: Value, logits: Value, q: Value, axis: int) -> Value:
    return sum_(x_dot * _soft_nll_slope(logits, q, axis), axis=axis)


def _soft_nll_pull(y_bar: Value, y: Value, logits: Value, q: Value, axis: int) -> Value:
    return expand_dims(y_bar, axis=axis) * _soft_nll_slope(logits, q, axis)


def _soft_nll_push_q(q_dot: Value, y: Value, logits: Value, q: Value, axis: int) -> Value:
    return -sum_(q_dot * log_softmax(logits, axis=axis), axis=axis)


def _soft_nll_pull_q(y_bar: Value, y: Value, logits: Value, q: Value, axis: int) -> Value:
    return -(expand_dims(y_bar, axis=axis) * log_softmax(logits, axis=axis))


soft_nll: Op = internal(
    "soft_nll",
    _soft_nll_value,
    Tangents(_soft_nll_push, _soft_nll_push_q, transposes=(_soft_nll_pull, _soft_nll_pull_q)),
    rounding="inputs",
).says(
    "-sum(q log(softmax(logits))) along the axis",
    "softmax(logits) sum(q) - q, -log(softmax(logits))",
)


def _soft_cross_entropy(
    logits: Value, probabilities: Value, *, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Value:
    axis, shape = _class_axis(logits), shape_of(logits)
    if shape_of(probabilities) != shape:
        raise ValueError("logits and probabilities must have the same shape")
    q = probabilities
    if label_smoothing:
        q = q * (1 - label_smoothing) + label_smoothing / shape[axis]
    return reduced(soft_nll(logits, q, axis=axis), reduction)


soft_cross_entropy: Composite = composite("soft_cross_entropy", _soft_cross_entropy).says(
    f"-sum(q log(softmax(logits))) over the classes; {CLASSES}. With label_smoothing e, q "
    "is probabilities (1 - e) + e / number of classes" + REDUCED,
    "softmax(logits) sum(q) - q, -log(softmax(logits))",
    domain="finite logits",
    stability="each slope without the class's own terms, p_i sum(other q) - q_i sum(other p), "
    "which keep their digits where p_i and q_i are close to 1",
    source="torch.nn.functional.cross_entropy with probabilities as target",
)


def _nll(log_p: Value, labels: Value, *, reduction: str = "mean") -> Value:
    own, known, axis = _own(log_p, labels)
    terms = -sum_(where(own, log_p, 0.0), axis=axis)
    return reduced(where(known, terms, np.nan), reduction)


nll: Composite = composite("nll", _nll, aliases=("nll_loss",), kinds={1: "int"}).says(
    "-log_p at the labels, whole numbers; the classes are axis 1 of log_p, or its only "
    "axis; nan for a label that is no class" + REDUCED,
    "-one_hot(labels)",
    domain="0 <= labels < number of classes",
    source="torch.nn.functional.nll_loss",
)

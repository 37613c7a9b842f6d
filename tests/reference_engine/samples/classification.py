"""Samples of ops/classification.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Array, Draw, Sample, one
from tests.reference_engine.samples.layers import whole

Shape = tuple[int, ...]


def PROBABILITIES(rng: np.random.Generator, shape: Shape) -> Array:
    """They add up to 1 over axis 1, or the only axis."""
    numbers = rng.uniform(0.1, 1, shape)
    return np.asarray(numbers / numbers.sum(axis=min(1, len(shape) - 1), keepdims=True))


def LOG_PROBABILITIES(rng: np.random.Generator, shape: Shape) -> Array:
    return np.log(PROBABILITIES(rng, shape))


def _labelled(first: Draw, *shape: int, **keywords: Any) -> Sample:
    axis = min(1, len(shape) - 1)
    return Sample((first, whole(shape[axis])), (shape, shape[:axis] + shape[axis + 1 :]), keywords)


def _soft(*shape: int, **keywords: Any) -> Sample:
    return Sample((REAL, PROBABILITIES), (shape, shape), keywords)


ROWS: dict[str, list[Sample]] = {
    "cross_entropy": [
        _labelled(REAL, 3, 4),
        _labelled(REAL, 2, 3, label_smoothing=0.25, reduction="sum"),
        _labelled(REAL, 3),
        _labelled(REAL, 2, 3, 2, reduction="none"),
        _labelled(REAL, 2, 1),
        _labelled(REAL, 0, 3, reduction="sum"),
    ],
    "soft_cross_entropy": [
        _soft(3, 4),
        _soft(2, 3, label_smoothing=0.25, reduction="sum"),
        _soft(3),
        _soft(2, 3, 2, reduction="none"),
        _soft(2, 1),
        _soft(0, 3, reduction="sum"),
    ],
    "nll": [
        _labelled(LOG_PROBABILITIES, 3, 4),
        _labelled(LOG_PROBABILITIES, 2, 3, reduction="sum"),
        _labelled(LOG_PROBABILITIES, 3),
        _labelled(LOG_PROBABILITIES, 2, 3, 2, reduction="none"),
        _labelled(LOG_PROBABILITIES, 2, 1),
        _labelled(LOG_PROBABILITIES, 0, 3, reduction="sum"),
    ],
    "soft_nll": [
        Sample((REAL, PROBABILITIES), ((2, 3), (2, 3)), {"axis": 1}),
        Sample((REAL, PROBABILITIES), ((3,), (3,)), {"axis": 0}),
        Sample((REAL, REAL), ((2, 1), (2, 1)), {"axis": 1}),
    ],
    "sum_of_others": [
        one(REAL, 4, axis=0),
        one(REAL, 3, 2, axis=0),
        one(REAL, 2, 3, 1, axis=1),
        one(REAL, 2, 1, axis=1),
        one(REAL, 0, axis=0),
    ],
}

_shapes = st.lists(st.integers(1, 3), min_size=1, max_size=3)
_reductions = st.sampled_from(("mean", "sum", "none"))
_smoothing = st.sampled_from((0.0, 0.25))

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "cross_entropy": st.builds(
        lambda shape, smooth, how: _labelled(REAL, *shape, label_smoothing=smooth, reduction=how),
        _shapes,
        _smoothing,
        _reductions,
    ),
    "soft_cross_entropy": st.builds(
        lambda shape, smooth, how: _soft(*shape, label_smoothing=smooth, reduction=how),
        _shapes,
        _smoothing,
        _reductions,
    ),
    "nll": st.builds(
        lambda shape, how: _labelled(LOG_PROBABILITIES, *shape, reduction=how), _shapes, _reductions
    ),
    "soft_nll": _shapes.map(
        lambda shape: Sample((REAL, REAL), (tuple(shape),) * 2, {"axis": len(shape) - 1})
    ),
    "sum_of_others": _shapes.map(lambda shape: one(REAL, *shape, axis=0)),
}


def _reduced(terms: Array, reduction: str) -> Any:
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](terms)


def _at(x: Array, labels: Array) -> Array:
    axis = min(1, x.ndim - 1)
    return np.take_along_axis(x, np.expand_dims(labels, axis), axis).squeeze(axis)


def _cross_entropy(
    logits: Array, labels: Array, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    axis = min(1, logits.ndim - 1)
    surprise = -scipy.special.log_softmax(logits, axis=axis)
    smooth = label_smoothing * surprise.mean(axis=axis)
    return _reduced((1 - label_smoothing) * _at(surprise, labels) + smooth, reduction)


def _soft_cross_entropy(
    logits: Array, probabilities: Array, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    axis = min(1, logits.ndim - 1)
    q = (1 - label_smoothing) * probabilities + label_smoothing / logits.shape[axis]
    return _reduced(_soft_nll(logits, q, axis), reduction)


def _soft_nll(logits: Array, q: Array, axis: int) -> Array:
    return np.asarray(-np.sum(q * scipy.special.log_softmax(logits, axis=axis), axis=axis))


def _nll(log_p: Array, labels: Array, reduction: str = "mean") -> Any:
    return _reduced(-_at(log_p, labels), reduction)


VALUES: dict[str, Callable[..., Any]] = {
    "cross_entropy": _cross_entropy,
    "soft_cross_entropy": _soft_cross_entropy,
    "nll": _nll,
    "soft_nll": _soft_nll,
    "sum_of_others": lambda x, axis: x.sum(axis=axis, keepdims=True) - x,
}

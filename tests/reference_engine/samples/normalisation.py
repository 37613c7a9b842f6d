"""Samples of ops/normalisation.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Array, Sample, one

Shape = tuple[int, ...]
EPS = 0.1  # large enough that finite differences see a smooth function where x is nearly constant


def _normed(shape: Shape, parameters: Shape, count: int = 2, **keywords: Any) -> Sample:
    return Sample((REAL,) * (count + 1), (shape, *(parameters,) * count), keywords)


ROWS: dict[str, list[Sample]] = {
    "layer_norm": [
        _normed((2, 4), (4,)),
        _normed((3,), (3,), eps=EPS),
        _normed((2, 2, 3), (2, 3)),
        _normed((2, 1), (1,), eps=EPS),
        _normed((0, 3), (3,)),
    ],
    "rms_norm": [
        _normed((2, 4), (4,), 1),
        _normed((3,), (3,), 1, eps=EPS),
        _normed((2, 2, 3), (2, 3), 1),
        _normed((2, 1), (1,), 1, eps=EPS),
        _normed((0, 3), (3,), 1),
    ],
    "batch_norm": [
        _normed((5, 2), (2,)),
        _normed((2, 2, 3), (2,), eps=EPS),
        _normed((2, 1, 2, 2), (1,)),
        _normed((1, 2, 2, 2), (2,), eps=EPS),
    ],
    "group_norm": [
        _normed((2, 4, 3), (4,), num_groups=2),
        _normed((1, 2, 2, 2), (2,), num_groups=1, eps=EPS),
        _normed((2, 2, 3), (2,), num_groups=2),
        _normed((3, 4), (4,), num_groups=2, eps=EPS),
    ],
    "safe_scale": [one(REAL, 3, axis=(0,)), one(REAL, 2, 3, axis=(-1,))],
}

_size = st.integers(2, 3)
_eps = st.just({"eps": EPS})


def _layers(count: int) -> SearchStrategy[Sample]:
    shapes = st.tuples(
        st.lists(st.integers(1, 2), max_size=2), st.lists(_size, min_size=1, max_size=2)
    )
    return shapes.map(lambda s: _normed((*s[0], *s[1]), tuple(s[1]), count, eps=EPS))


@st.composite
def _channels(draw: st.DrawFn, grouped: bool) -> Sample:
    groups = draw(st.integers(1, 2)) if grouped else 1
    channels = groups * draw(st.integers(1, 2))
    shape = (draw(_size), channels, *draw(st.lists(_size, max_size=1)))
    keywords = {"num_groups": groups} if grouped else {}
    return _normed(shape, (channels,), eps=EPS, **keywords)


RANDOM: dict[str, SearchStrategy[Sample]] = {
    "layer_norm": _layers(2),
    "rms_norm": _layers(1),
    "batch_norm": _channels(False),
    "group_norm": _channels(True),
    "safe_scale": st.lists(_size, min_size=1, max_size=3).map(
        lambda shape: one(REAL, *shape, axis=(-1,))
    ),
}


def _layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    axes = tuple(range(-weight.ndim, 0))
    deviation = np.sqrt(x.var(axis=axes, keepdims=True) + eps)
    return (x - x.mean(axis=axes, keepdims=True)) / deviation * weight + bias


def _rms_norm(x: Array, weight: Array, eps: float = 1e-5) -> Array:
    axes = tuple(range(-weight.ndim, 0))
    return x / np.sqrt(np.mean(x**2, axis=axes, keepdims=True) + eps) * weight


def _along(x: Array, parameter: Array) -> Array:
    return parameter.reshape(-1, *(1,) * (x.ndim - 2))


def _batch_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    columns = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    normed = (columns - columns.mean(0)) / np.sqrt(columns.var(0) + eps) * weight + bias
    return np.moveaxis(normed.reshape(len(x), *x.shape[2:], x.shape[1]), -1, 1)


def _group_norm(x: Array, weight: Array, bias: Array, num_groups: int, eps: float = 1e-5) -> Array:
    parts = [
        _layer_norm(part.reshape(len(x), -1), np.ones(1), np.zeros(1), eps).reshape(part.shape)
        for part in np.split(x, num_groups, axis=1)
    ]
    return np.concatenate(parts, axis=1) * _along(x, weight) + _along(x, bias)


def _ones(x: Array, axis: Any) -> Array:
    return np.ones_like(x.sum(axis=axis, keepdims=True))


VALUES: dict[str, Callable[..., Any]] = {
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "safe_scale": _ones,
}

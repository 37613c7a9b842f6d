"""Samples of ops/layers.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import BOOL, REAL, Array, Draw, Sample, any_broadcast

Shape = tuple[int, ...]


def whole(below: int) -> Draw:
    """Whole numbers from 0, for labels and indices."""

    def draw(rng: np.random.Generator, shape: Shape) -> Array:
        return rng.integers(0, below, shape)

    return draw


def SOME(rng: np.random.Generator, shape: Shape) -> Array:
    """A mask with at least one true element in every row."""
    mask = BOOL(rng, shape)
    if shape[-1]:
        mask[..., rng.integers(0, shape[-1])] = True
    return mask


def _linear(x: Shape, n: int, m: int) -> Sample:
    return Sample((REAL, REAL, REAL), ((*x, n), (m, n), (m,)))


def _attention(batch: Shape, sizes: Shape, *more: Draw, **keywords: Any) -> Sample:
    """Of `sizes` queries, keys, their length, and the length of the values."""
    queries, keys, length, columns = sizes
    shapes = ((*batch, queries, length), (*batch, keys, length), (*batch, keys, columns))
    masks = ((queries, keys),) * len(more)
    return Sample((REAL, REAL, REAL, *more), (*shapes, *masks), keywords)


ROWS: dict[str, list[Sample]] = {
    "linear": [
        _linear((2,), 3, 2),
        _linear((), 3, 2),
        _linear((2, 2), 1, 3),
        _linear((0,), 2, 1),
    ],
    "dropout": [
        Sample((REAL, BOOL), ((3,), (3,))),
        Sample((REAL, BOOL), ((2, 3), (3,)), {"rate": 0.25}),
        Sample((REAL, BOOL), ((), ()), {"rate": 0.0}),
        Sample((REAL, BOOL), ((0, 2), (0, 2))),
    ],
    "embedding": [
        Sample((whole(3), REAL), ((4,), (3, 2))),
        Sample((whole(2), REAL), ((2, 2), (2, 3))),
        Sample((whole(1), REAL), ((), (1, 2))),
        Sample((whole(1), REAL), ((0,), (3, 2))),
    ],
    "scaled_dot_product_attention": [
        _attention((), (2, 3, 2, 2)),
        _attention((2,), (2, 2, 1, 1), scale=0.5),
        _attention((1, 1), (2, 3, 2, 1), is_causal=True),
        _attention((), (1, 1, 1, 1)),
        _attention((), (3, 2, 2, 1), is_causal=True, scale=0.5),
    ],
    "masked_attention": [
        _attention((), (2, 3, 2, 2), SOME),
        _attention((2,), (2, 2, 1, 1), SOME, scale=0.5),
        _attention((1, 1), (2, 3, 2, 1), SOME),
        _attention((), (1, 1, 1, 1), SOME),
    ],
}

_few = st.integers(1, 2)
_batches = st.lists(_few, max_size=2).map(tuple)
_sizes = st.tuples(*(_few,) * 4)
_scales = st.none() | st.sampled_from((0.5, 2.0))

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "linear": st.builds(_linear, _batches, st.integers(1, 3), _few),
    "dropout": any_broadcast(REAL, BOOL, rate=st.sampled_from((0.0, 0.25, 0.5))),
    "embedding": st.builds(
        lambda rows, columns, shape: Sample((whole(rows), REAL), (shape, (rows, columns))),
        st.integers(1, 3),
        st.integers(1, 3),
        st.lists(st.integers(0, 2), max_size=2).map(tuple),
    ),
    "scaled_dot_product_attention": st.builds(
        lambda batch, sizes, causal, scale: _attention(batch, sizes, is_causal=causal, scale=scale),
        _batches,
        _sizes,
        st.booleans(),
        _scales,
    ),
    "masked_attention": st.builds(
        lambda batch, sizes, scale: _attention(batch, sizes, SOME, scale=scale),
        _batches,
        _sizes,
        _scales,
    ),
}


def _masked(q: Array, k: Array, v: Array, mask: Array, scale: float | None = None) -> Array:
    scores = np.einsum("...le,...se->...ls", q, k)
    scores = scores / np.sqrt(q.shape[-1]) if scale is None else scores * scale
    weights = scipy.special.softmax(np.where(mask, scores, -np.inf), axis=-1)
    return np.asarray(np.einsum("...ls,...sv->...lv", weights, v))


def _attended(
    q: Array, k: Array, v: Array, is_causal: bool = False, scale: float | None = None
) -> Array:
    ones = np.ones((q.shape[-2], k.shape[-2]), bool)
    return _masked(q, k, v, np.tril(ones) if is_causal else ones, scale)


VALUES: dict[str, Callable[..., Any]] = {
    "linear": lambda x, w, b: np.einsum("...n,mn->...m", x, w) + b,
    "dropout": lambda x, mask, rate=0.5: np.where(mask, x / (1 - rate), 0),
    "embedding": lambda indices, weight: np.take(weight, indices, axis=0),
    "scaled_dot_product_attention": _attended,
    "masked_attention": _masked,
}

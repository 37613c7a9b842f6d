"""Samples of ops/similarity.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import AWAY_FROM_ZERO, Array, Sample, any_broadcast, one

Shape = tuple[int, ...]


def NEAR(rng: np.random.Generator, shape: Shape) -> Array:
    """Around 0, so that distances to FAR are from 1 to 9."""
    return rng.uniform(-0.5, 0.5, shape)


def FAR(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(1.5, 2.5, shape)


def FARTHER(rng: np.random.Generator, shape: Shape) -> Array:
    """Farther from NEAR than FAR by more than 1.2: no margin of 1 is met."""
    return rng.uniform(4.3, 5, shape)


def _triplets(*shape: int, **keywords: Any) -> list[Sample]:
    """One that costs something, and one that does not."""
    shapes = (shape,) * 3
    return [
        Sample((NEAR, FARTHER, FAR), shapes, keywords),
        Sample((NEAR, FAR, FARTHER), shapes, keywords),
    ]


def _pair(*shape: int, **keywords: Any) -> Sample:
    return Sample((AWAY_FROM_ZERO, AWAY_FROM_ZERO), (shape, shape), keywords)


ROWS: dict[str, list[Sample]] = {
    "normalize": [
        one(AWAY_FROM_ZERO, 3),
        one(AWAY_FROM_ZERO, 2, 3),
        one(AWAY_FROM_ZERO, 2, 3, axis=0),
        one(AWAY_FROM_ZERO, 2, 2, ord=3.0),
        one(AWAY_FROM_ZERO, 2, 2, ord=1.0, axis=0),
        one(AWAY_FROM_ZERO, 3, eps=20.0),
        one(AWAY_FROM_ZERO, 2, 1),
        one(AWAY_FROM_ZERO, 0, 2),
    ],
    "cosine_similarity": [
        _pair(2, 3),
        _pair(3),
        _pair(2, 3, axis=0),
        Sample((AWAY_FROM_ZERO,) * 2, ((2, 3), (3,))),
        Sample((AWAY_FROM_ZERO,) * 2, ((2, 1, 2), (3, 2))),
        Sample((AWAY_FROM_ZERO,) * 2, ((1,), (3, 2))),
        _pair(2, 1),
        _pair(0, 2),
    ],
    "triplet": [
        *_triplets(2, 2),
        *_triplets(3, margin=0.5, reduction="sum"),
        *_triplets(2, 2, reduction="none", ord=3.0, eps=0.0),
        *_triplets(2, 1),
        *_triplets(2, 1, 2, ord=1.0),
    ],
}

_vectors = st.tuples(st.lists(st.integers(1, 3), max_size=2), st.integers(1, 3)).map(
    lambda parts: (*parts[0], parts[1])
)

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "normalize": st.builds(
        lambda shape, axis, ord: one(AWAY_FROM_ZERO, *shape, axis=axis, ord=ord),
        _vectors,
        st.sampled_from((-1, 0)),
        st.sampled_from((1.0, 2.0, 3.0)),
    ),
    "cosine_similarity": any_broadcast(
        AWAY_FROM_ZERO, AWAY_FROM_ZERO, eps=st.sampled_from((1e-8, 1e-3))
    ).filter(lambda sample: min(map(len, sample.shapes)) > 0 and 0 not in sample.shapes[0]),
    "triplet": st.builds(
        lambda shape, which, how: _triplets(*shape, reduction=how)[which],
        _vectors,
        st.integers(0, 1),
        st.sampled_from(("mean", "sum", "none")),
    ),
}


def _length(x: Array, ord: float, axis: int) -> Array:
    return np.asarray(np.sum(np.abs(x) ** ord, axis=axis, keepdims=True) ** (1 / ord))


def _normalize(x: Array, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Array:
    return x / np.maximum(_length(x, ord, axis), eps)


def _cosine(x1: Array, x2: Array, axis: int = -1, eps: float = 1e-8) -> Array:
    x1, x2 = np.broadcast_arrays(x1, x2)
    lengths = [np.maximum(_length(x, 2, axis), eps).squeeze(axis) for x in (x1, x2)]
    return np.asarray(np.sum(x1 * x2, axis=axis) / (lengths[0] * lengths[1]))


def _triplet(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    near, far = (_length(anchor - x + eps, ord, -1)[..., 0] for x in (positive, negative))
    terms = np.maximum(0, margin + near - far)
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](terms)


VALUES: dict[str, Callable[..., Any]] = {
    "normalize": _normalize,
    "cosine_similarity": _cosine,
    "triplet": _triplet,
}

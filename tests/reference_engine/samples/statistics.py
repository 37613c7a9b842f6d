"""Samples of ops/statistics.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    DISTINCT,
    REAL,
    Sample,
    any_reduction,
    one,
    reduction,
)


def spread(sample: Sample) -> bool:
    """Whether more than one element is reduced: of one the deviation is 0, and frameworks part."""
    (shape,), axis = sample.shapes, sample.keywords["axis"]
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([shape[a] for a in axes])) > 1


ROWS: dict[str, list[Sample]] = {
    "centered": [
        one(REAL, 3),
        one(REAL),
        one(REAL, 2, 3, axis=0),
        one(REAL, 2, 3, 2, axis=(0, -1)),
        one(REAL, 2, 0, axis=0),
    ],
    "var": [
        *reduction(REAL, empty=False),
        one(REAL, 3, correction=1),
        one(REAL, 2, 3, axis=1, correction=0.5, keepdims=True),
    ],
    "std": [
        one(DISTINCT, 3),
        one(DISTINCT, 2, 3, axis=0),
        one(DISTINCT, 2, 3, 2, axis=(2, 0), keepdims=True),
        one(DISTINCT, 2, 3, axis=-1, correction=1),
        one(DISTINCT, 2, 3, keepdims=True, correction=0.5),
        one(DISTINCT, 2, 0, axis=0),
    ],
}

CORRECTIONS = st.sampled_from([0, 0.5, 1])

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "centered": any_reduction(REAL).map(
        lambda sample: Sample(sample.draws, sample.shapes, {"axis": sample.keywords["axis"]})
    ),
    "var": any_reduction(REAL, correction=CORRECTIONS).filter(spread),
    "std": any_reduction(DISTINCT, correction=CORRECTIONS).filter(spread),
}


def _var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    return np.var(x, axis, ddof=correction, keepdims=keepdims)


VALUES: dict[str, Callable[..., Any]] = {
    "centered": lambda x, axis=None: (
        x - np.sum(x, axis, keepdims=True) / np.sum(np.ones(x.shape), axis, keepdims=True)
    ),
    "var": _var,
    "std": lambda x, **keywords: np.sqrt(_var(x, **keywords)),
}

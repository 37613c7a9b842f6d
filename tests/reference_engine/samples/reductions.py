"""Samples of ops/reductions.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    BOOL,
    DISTINCT,
    REAL,
    Sample,
    any_reduction,
    any_sizes,
    one,
    reduction,
)

_ARGUMENT = [
    one(DISTINCT, 3),
    one(DISTINCT),
    one(DISTINCT, 1),
    one(DISTINCT, 2, 3),
    one(DISTINCT, 2, 3, axis=0),
    one(DISTINCT, 2, 3, axis=-1, keepdims=True),
    one(DISTINCT, 2, 3, keepdims=True),
    one(DISTINCT, 2, 0, axis=0),
]

ROWS: dict[str, list[Sample]] = {
    "sum": reduction(REAL),
    "mean": reduction(REAL, empty=False),
    "prod": reduction(AWAY_FROM_ZERO),
    "max": reduction(DISTINCT, empty=False),
    "min": reduction(DISTINCT, empty=False),
    "exclusive_prod": [one(AWAY_FROM_ZERO, *shape) for shape in ((3,), (2, 3), (1,), (2, 1), (0,))],
    "argmax": _ARGUMENT,
    "argmin": _ARGUMENT,
    "all": reduction(BOOL),
    "any": reduction(BOOL),
    "count_nonzero": reduction(AWAY_FROM_ZERO),
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "sum": any_reduction(REAL, min_side=0),
    "mean": any_reduction(REAL),
    "prod": any_reduction(AWAY_FROM_ZERO, min_side=0),
    "max": any_reduction(DISTINCT),
    "min": any_reduction(DISTINCT),
    "exclusive_prod": st.builds(
        lambda shape: one(AWAY_FROM_ZERO, *shape), any_sizes(min_dims=1, min_side=0)
    ),
    "argmax": any_reduction(DISTINCT, many=False),
    "argmin": any_reduction(DISTINCT, many=False),
    "all": any_reduction(BOOL, min_side=0),
    "any": any_reduction(BOOL, min_side=0),
    "count_nonzero": any_reduction(AWAY_FROM_ZERO, min_side=0),
}


def _exclusive_prod(x: Any) -> Any:
    others = [np.prod(np.delete(x, i, axis=-1), axis=-1) for i in range(x.shape[-1])]
    return np.stack(others, axis=-1) if others else np.ones(x.shape)


VALUES: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "exclusive_prod": _exclusive_prod,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "all": np.all,
    "any": np.any,
    "count_nonzero": lambda x, **keywords: np.sum(x != 0, **keywords),
}

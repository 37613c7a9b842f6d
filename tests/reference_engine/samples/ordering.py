"""Samples of ops/ordering.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    DISTINCT,
    Sample,
    any_along,
    any_reduction,
    one,
    reduction,
)

_SORT = [
    one(DISTINCT, 4),
    one(DISTINCT, 2, 3),
    one(DISTINCT, 2, 3, axis=0, descending=True),
    one(DISTINCT, 2, 3, 2, axis=-2),
    one(DISTINCT, 1),
    one(DISTINCT, 0, 2, axis=0),
]
_TOP = [
    one(DISTINCT, 4, k=2),
    one(DISTINCT, 2, 3, k=3),
    one(DISTINCT, 3, 2, k=2, axis=0),
    one(DISTINCT, 2, 4, k=1, largest=False),
    one(DISTINCT, 1, k=1),
    one(DISTINCT, 3, k=0),
]

ROWS: dict[str, list[Sample]] = {
    "sort": _SORT,
    "argsort": _SORT,
    "median": [*reduction(DISTINCT, empty=False), one(DISTINCT, 4), one(DISTINCT, 2, 4, axis=1)],
    "topk_values": _TOP,
    "topk_indices": _TOP,
}


@st.composite
def _top(pick: Any) -> Sample:
    sample = pick(any_along(DISTINCT, largest=st.booleans()))
    size = sample.shapes[0][sample.keywords["axis"]]
    return Sample(sample.draws, sample.shapes, {"k": pick(st.integers(1, size)), **sample.keywords})


RANDOM: dict[str, SearchStrategy[Sample]] = {
    "sort": any_along(DISTINCT, min_side=0, descending=st.booleans()),
    "argsort": any_along(DISTINCT, min_side=0, descending=st.booleans()),
    "median": any_reduction(DISTINCT),
    "topk_values": _top(),
    "topk_indices": _top(),
}


def _sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return -np.sort(-x, axis) if descending else np.sort(x, axis)


def _argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return np.argsort(-x if descending else x, axis)


def _first(x: Any, k: int, axis: int) -> Any:
    return np.moveaxis(np.moveaxis(x, axis, 0)[:k], 0, axis)


VALUES: dict[str, Callable[..., Any]] = {
    "sort": _sort,
    "argsort": _argsort,
    "median": np.median,
    "topk_values": lambda x, k, axis=-1, largest=True: _first(_sort(x, axis, largest), k, axis),
    "topk_indices": lambda x, k, axis=-1, largest=True: _first(_argsort(x, axis, largest), k, axis),
}

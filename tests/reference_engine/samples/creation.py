"""Samples of ops/creation.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Sample, any_shape, any_sizes, unary


def call(**keywords: Any) -> Sample:
    """A call without an array."""
    return Sample((), (), keywords)


ROWS: dict[str, list[Sample]] = {
    "arange": [call(start=4), call(start=1, stop=8, step=3), call(start=3, stop=0, step=-1)],
    "zeros": [call(shape=(2, 3)), call(shape=()), call(shape=3)],
    "ones": [call(shape=(2, 3)), call(shape=()), call(shape=3)],
    "full": [
        call(shape=(2, 3), fill_value=0.5),
        call(shape=(), fill_value=-2),
        call(shape=1, fill_value=1),
    ],
    "eye": [call(n=3), call(n=2, m=3), call(n=3, m=2, k=-1), call(n=2, k=1), call(n=2, k=4)],
    "zeros_like": unary(REAL),
    "ones_like": unary(REAL),
    "full_like": unary(REAL, fill_value=0.5),
}


def _calls(**keywords: SearchStrategy[Any]) -> SearchStrategy[Sample]:
    return st.builds(call, **keywords)


SIZES, FEW = any_sizes(), st.integers(1, 4)

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "arange": _calls(
        start=st.integers(-5, 5), stop=st.integers(-5, 5), step=st.sampled_from([-2, -1, 1, 3])
    ),
    "zeros": _calls(shape=SIZES),
    "ones": _calls(shape=SIZES),
    "full": _calls(shape=SIZES, fill_value=st.sampled_from([-1.5, 0, 3])),
    "eye": _calls(n=FEW, m=st.none() | FEW, k=st.integers(-3, 3)),
    "zeros_like": any_shape(REAL),
    "ones_like": any_shape(REAL),
    "full_like": any_shape(REAL, fill_value=st.sampled_from([-1.5, 0, 3])),
}


def _eye(n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    return np.array([[float(j - i == k) for j in range(n if m is None else m)] for i in range(n)])


VALUES: dict[str, Callable[..., Any]] = {
    "arange": lambda start, stop=None, step=1: np.array(
        range(start) if stop is None else range(start, stop, step), np.int64
    ),
    "zeros": lambda shape: np.ones(shape) * 0,
    "ones": lambda shape: np.zeros(shape) + 1,
    "full": lambda shape, fill_value: np.zeros(shape) + fill_value,
    "eye": _eye,
    "zeros_like": lambda x: x * 0,
    "ones_like": lambda x: x * 0 + 1,
    "full_like": lambda x, fill_value: x * 0 + fill_value,
}

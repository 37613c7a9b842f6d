"""Samples of ops/control.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Sample, any_shape, one, unary

FLOAT64 = np.dtype(np.float64)

ROWS: dict[str, list[Sample]] = {
    "stop_gradient": unary(REAL),
    "astype": [one(REAL, 3, dtype=FLOAT64), one(REAL, dtype=FLOAT64)],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "stop_gradient": any_shape(REAL),
    "astype": any_shape(REAL, dtype=st.just(FLOAT64)),
}

VALUES: dict[str, Callable[..., Any]] = {
    "stop_gradient": lambda x: x,
    "astype": lambda x, dtype: x.astype(dtype),
}

"""Samples of ops/neural.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    REAL,
    Sample,
    along_axis,
    any_along,
    any_reduction,
    one,
    reduction,
)

ROWS: dict[str, list[Sample]] = {
    "softmax": along_axis(REAL),
    "log_softmax": along_axis(REAL),
    "logsumexp": [*along_axis(REAL), *reduction(REAL, empty=False)[3:], one(REAL, 2, 2, axis=None)],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "softmax": any_along(REAL),
    "log_softmax": any_along(REAL),
    "logsumexp": any_reduction(REAL),
}

VALUES: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, axis=-1: scipy.special.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: scipy.special.log_softmax(x, axis),
    # SciPy gives a scalar an axis
    "logsumexp": lambda x, axis=-1, keepdims=False: np.reshape(
        scipy.special.logsumexp(x, axis), np.sum(x, axis, keepdims=keepdims).shape
    ),
}

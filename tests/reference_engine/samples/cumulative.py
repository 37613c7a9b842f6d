"""Samples of ops/cumulative.py."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    DISTINCT,
    REAL,
    Draw,
    Sample,
    any_along,
    any_sizes,
    one,
)


def _along(draw: Draw) -> list[Sample]:
    return [
        one(draw, 4),
        one(draw, 2, 3, axis=0),
        one(draw, 2, 3, axis=-1),
        one(draw, 1),
        one(draw, 3, 1, axis=1),
        one(draw, 2, 3, 2, axis=1),
        one(draw, 0, 3, axis=0),
        one(draw, 0, 3, axis=1),
    ]


ROWS: dict[str, list[Sample]] = {
    "cumsum": _along(REAL),
    "cumprod": _along(AWAY_FROM_ZERO),
    "cummax": _along(DISTINCT),
    "cummin": _along(DISTINCT),
    "recurrence": [
        Sample((REAL, REAL), (shape, shape))
        for shape in ((4,), (2, 3), (1,), (2, 0), (2, 1, 3), (0, 3), (40, 2))
    ],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "cumsum": any_along(REAL, min_side=0),
    "cumprod": any_along(AWAY_FROM_ZERO, min_side=0),
    "cummax": any_along(DISTINCT, min_side=0),
    "cummin": any_along(DISTINCT, min_side=0),
    "recurrence": st.builds(
        lambda shape: Sample((REAL, REAL), (shape, shape)), any_sizes(min_dims=1)
    ),
}


def _one_by_one(step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def value(x: Any, axis: int = 0) -> Any:
        slices = list(accumulate(np.moveaxis(x, axis, 0), step))
        return np.moveaxis(np.stack(slices), 0, axis) if slices else x

    return value


def _recurrence(a: Any, b: Any) -> Any:
    pairs = zip(np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0), strict=True)
    states = list(
        accumulate(pairs, lambda y, ab: ab[0] * y + ab[1], initial=np.zeros(a.shape[:-1]))
    )
    return np.stack(states[1:], axis=-1) if len(states) > 1 else a


VALUES: dict[str, Callable[..., Any]] = {
    "cumsum": _one_by_one(np.add),
    "cumprod": _one_by_one(np.multiply),
    "cummax": _one_by_one(np.maximum),
    "cummin": _one_by_one(np.minimum),
    "recurrence": _recurrence,
}

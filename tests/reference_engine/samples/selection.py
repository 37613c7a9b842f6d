"""Samples of ops/selection.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_HALVES,
    AWAY_FROM_ZERO,
    BETWEEN_WHOLE,
    BOOL,
    DISTINCT,
    REAL,
    SPECIAL,
    UPPER,
    Draw,
    Exact,
    Sample,
    any_broadcast,
    any_pair,
    any_shape,
    apart,
    binary,
    by_mpmath,
    one,
    single,
    unary,
)

APART = (
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "maximum",
    "minimum",
)
DRAWS: dict[str, Draw] = {
    "sign": AWAY_FROM_ZERO,
    "logical_not": BOOL,
    "floor": BETWEEN_WHOLE,
    "ceil": BETWEEN_WHOLE,
    "round": AWAY_FROM_HALVES,
}

ROWS: dict[str, list[Sample]] = {
    **{name: apart() for name in APART},
    "logical_and": binary(BOOL, BOOL),
    "logical_or": binary(BOOL, BOOL),
    "where": [
        Sample((BOOL, REAL, REAL), ((3,), (3,), (3,))),
        Sample((BOOL, REAL, REAL), ((), (), ())),
        Sample((BOOL, REAL, REAL), ((2, 1), (3,), ())),
        Sample((BOOL, REAL, REAL), ((3,), (2, 3), (2, 1))),
        Sample((BOOL, REAL, REAL), ((0,), (1,), ())),
    ],
    "clip": [
        *unary(DISTINCT, min=-1.0, max=1.0),
        one(DISTINCT, 7, min=-1.0, max=1.0),
        one(DISTINCT, 7, max=0.0),
        one(DISTINCT, 7, min=0.0),
        one(DISTINCT, 3),
    ],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    **{name: any_pair(DISTINCT, UPPER) for name in APART},
    "logical_and": any_pair(BOOL, BOOL),
    "logical_or": any_pair(BOOL, BOOL),
    "where": any_broadcast(BOOL, REAL, REAL),
    "clip": any_shape(
        DISTINCT,
        min=st.sampled_from([None, -0.4, 0.0]),
        max=st.sampled_from([None, 0.2, 1.0]),
    ),
}

NOT_TIED = (
    (1.0, -1.0),
    (0.0, 0.25),
    (-0.0, -1.0),
    (1e300, -1e300),
    (1e-300, -1.0),
    (1.0, 1.0000001),
)


def _clip(x: Any, min: Any, max: Any) -> Any:
    return min if x < min else max if x > max else x


EXACT: dict[str, Exact] = {
    "maximum": Exact(lambda a, b: max(a, b), NOT_TIED, domain=lambda a, b: a != b),
    "minimum": Exact(lambda a, b: min(a, b), NOT_TIED, domain=lambda a, b: a != b),
    "relu": Exact(
        lambda x: max(x, 0), single(*(x for x in SPECIAL if x != 0)), domain=lambda x: x != 0
    ),
    "clip": Exact(
        _clip,
        single(*SPECIAL, 0.4999999, 1.5),
        calls=({"min": -0.75, "max": 0.5},),
        domain=lambda x: x not in (-0.75, 0.5),
    ),
}

VALUES: dict[str, Callable[..., Any]] = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "sign": lambda x: np.where(x > 0, 1.0, -1.0),
    "floor": lambda x: -np.ceil(-x),
    "ceil": lambda x: -np.floor(-x),
    "round": lambda x: np.floor(x + 0.5),
    "maximum": by_mpmath(EXACT["maximum"]),
    "minimum": by_mpmath(EXACT["minimum"]),
    "relu": by_mpmath(EXACT["relu"]),
    "where": lambda condition, a, b: np.where(condition, a, b),
    "clip": lambda x, min=None, max=None: np.clip(x, min, max),
}

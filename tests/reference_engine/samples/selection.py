"""Samples of ops/selection.py."""

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    BOOL,
    DISTINCT,
    REAL,
    Sample,
    apart,
    binary,
    one,
    unary,
)

ROWS: dict[str, list[Sample]] = {
    "less": apart(),
    "less_equal": apart(),
    "greater": apart(),
    "greater_equal": apart(),
    "equal": apart(),
    "not_equal": apart(),
    "logical_and": binary(BOOL, BOOL),
    "logical_or": binary(BOOL, BOOL),
    "logical_not": unary(BOOL),
    "sign": unary(AWAY_FROM_ZERO),
    "where": [
        Sample((BOOL, REAL, REAL), ((3,), (3,), (3,))),
        Sample((BOOL, REAL, REAL), ((), (), ())),
        Sample((BOOL, REAL, REAL), ((2, 1), (3,), ())),
        Sample((BOOL, REAL, REAL), ((3,), (2, 3), (2, 1))),
        Sample((BOOL, REAL, REAL), ((0,), (1,), ())),
    ],
    "maximum": apart(),
    "minimum": apart(),
    "relu": unary(AWAY_FROM_ZERO),
    "clip": [
        *unary(DISTINCT, min=-1.0, max=1.0),
        one(DISTINCT, 7, min=-1.0, max=1.0),
        one(DISTINCT, 7, max=0.0),
        one(DISTINCT, 7, min=0.0),
        one(DISTINCT, 3),
    ],
}

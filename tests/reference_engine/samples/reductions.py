"""Samples of ops/reductions.py."""

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    DISTINCT,
    REAL,
    Sample,
    one,
    reduction,
)

ROWS: dict[str, list[Sample]] = {
    "sum": reduction(REAL),
    "mean": reduction(REAL, empty=False),
    "prod": reduction(AWAY_FROM_ZERO),
    "max": reduction(DISTINCT, empty=False),
    "min": reduction(DISTINCT, empty=False),
    "exclusive_prod": [one(AWAY_FROM_ZERO, *shape) for shape in ((3,), (2, 3), (1,), (2, 1), (0,))],
    "norm": reduction(AWAY_FROM_ZERO, empty=False),
}

"""The table of operations, one file a family. Importing this package fills it."""

from reference_engine.ops import (
    arithmetic,
    control,
    exponential,
    indexing,
    linalg,
    neural,
    reductions,
    selection,
    shape,
    trigonometric,
)

__all__ = [
    "arithmetic",
    "control",
    "exponential",
    "indexing",
    "linalg",
    "neural",
    "reductions",
    "selection",
    "shape",
    "trigonometric",
]

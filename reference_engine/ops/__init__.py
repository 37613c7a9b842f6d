"""The table of operations, one file a family. Importing this package fills it."""

from reference_engine.ops import (
    activations,
    arithmetic,
    control,
    creation,
    cumulative,
    exponential,
    indexing,
    linalg,
    neural,
    norms,
    ordering,
    reductions,
    selection,
    shape,
    statistics,
    trigonometric,
)

__all__ = [
    "activations",
    "arithmetic",
    "control",
    "creation",
    "cumulative",
    "exponential",
    "indexing",
    "linalg",
    "neural",
    "norms",
    "ordering",
    "reductions",
    "selection",
    "shape",
    "statistics",
    "trigonometric",
]

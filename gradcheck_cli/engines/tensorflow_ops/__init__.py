"""The op table in TensorFlow's own words: what a user would call. One file a family of operations.

TensorFlow is not imported here: each function is given it as its first argument.
"""

from gradcheck_cli.engines.lowerings import merged
from gradcheck_cli.engines.tensorflow_ops import (
    activations,
    arithmetic,
    classification,
    control,
    convolution,
    creation,
    cumulative,
    exponential,
    indexing,
    layers,
    linalg,
    losses,
    neural,
    normalisation,
    norms,
    ordering,
    pooling,
    reductions,
    selection,
    shape,
    similarity,
    special,
    statistics,
    trigonometric,
)

TABLE = merged(
    activations.ROWS,
    arithmetic.ROWS,
    classification.ROWS,
    control.ROWS,
    convolution.ROWS,
    creation.ROWS,
    cumulative.ROWS,
    exponential.ROWS,
    indexing.ROWS,
    layers.ROWS,
    linalg.ROWS,
    losses.ROWS,
    neural.ROWS,
    normalisation.ROWS,
    norms.ROWS,
    ordering.ROWS,
    pooling.ROWS,
    reductions.ROWS,
    selection.ROWS,
    shape.ROWS,
    similarity.ROWS,
    special.ROWS,
    statistics.ROWS,
    trigonometric.ROWS,
)

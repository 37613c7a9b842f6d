"""The op table in TensorFlow's own words: what a user would call. One file a family of operations.

TensorFlow is not imported here: each function is given it as its first argument.
"""

from gradcheck_cli.engines.lowerings import merged
from gradcheck_cli.engines.tensorflow_ops import (
    activations,
    arithmetic,
    control,
    exponential,
    indexing,
    linalg,
    neural,
    reductions,
    selection,
    shape,
    special,
    trigonometric,
)

TABLE = merged(
    activations.ROWS,
    arithmetic.ROWS,
    control.ROWS,
    exponential.ROWS,
    indexing.ROWS,
    linalg.ROWS,
    neural.ROWS,
    reductions.ROWS,
    selection.ROWS,
    shape.ROWS,
    special.ROWS,
    trigonometric.ROWS,
)

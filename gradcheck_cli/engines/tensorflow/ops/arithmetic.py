"""Arithmetic."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.composed import cbrt
from gradcheck_cli.engines.kit.lowerings import Lowering


def hypot(tf: Any, x1: Any, x2: Any) -> Any:
    """Both divided by the larger, so that no square leaves the range. The result does not depend on
    what they are divided by, so that it needs no gradient; zeros are kept from the root."""
    largest = tf.stop_gradient(tf.maximum(tf.abs(x1), tf.abs(x2)))
    one = tf.ones_like(largest)
    scale = tf.where(largest > 0, largest, one)
    squares = tf.square(x1 / scale) + tf.square(x2 / scale)
    return largest * tf.sqrt(tf.where(largest > 0, squares, one))


ROWS: dict[str, Lowering] = {
    "abs": "abs",
    "cbrt": cbrt,
    "hypot": hypot,
    "reciprocal": "math.reciprocal",
    "remainder": "math.floormod",
    "rsqrt": "math.rsqrt",
    "sqrt": "sqrt",
    "square": "square",
}

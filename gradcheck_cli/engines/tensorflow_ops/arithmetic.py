"""Arithmetic."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


def cbrt(tf: Any, x: Any) -> Any:
    """|x|^(1/3) with the sign of x. One third is no floating-point number, which costs far out as
    many digits as log|x| has: one step of Newton's method for y^3 = |x| brings them back."""
    right = x >= 0
    size = tf.where(right, x, -x)
    y = size ** (1 / 3)
    safe = tf.where(size > 0, y, tf.ones_like(y))
    step = tf.where(size > 0, (y - size / safe / safe) / 3, tf.zeros_like(y))
    return tf.where(right, y - step, step - y)


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

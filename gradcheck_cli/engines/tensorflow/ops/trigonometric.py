"""Circular and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering

# Below 1/2, (pi/2)^(2k) / (2k + 1)! is less than 2^-60 of the first term from k = 12 on.
_SINC = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(12)]


def sinc(tf: Any, x: Any) -> Any:
    """sin(pi x) / (pi x); near 0 its Taylor series, because the derivative of the quotient is a
    difference of two numbers of the size of 1 / x there."""
    near = tf.abs(x) < 0.5
    inside, outside = tf.where(near, x, tf.zeros_like(x)), tf.where(near, tf.ones_like(x), x)
    series = tf.math.polyval([tf.constant(c, x.dtype) for c in reversed(_SINC)], inside * inside)
    return tf.where(near, series, tf.sin(math.pi * outside) / (math.pi * outside))


ROWS: dict[str, Lowering] = {
    "acos": "math.acos",
    "acosh": "math.acosh",
    "asin": "math.asin",
    "asinh": "math.asinh",
    "atan": "math.atan",
    "atan2": "math.atan2",
    "atanh": "math.atanh",
    "cos": "math.cos",
    "cosh": "math.cosh",
    "sin": "math.sin",
    "sinc": sinc,
    "sinh": "math.sinh",
    "tan": "math.tan",
}

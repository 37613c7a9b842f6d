"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def exp2(tf: Any, x: Any) -> Any:
    return tf.pow(tf.constant(2, x.dtype), x)


def log2(tf: Any, x: Any) -> Any:
    return tf.math.log(x) / math.log(2)


def log10(tf: Any, x: Any) -> Any:
    return tf.math.log(x) / math.log(10)


def log1mexp(tf: Any, x: Any) -> Any:
    """In two branches (Maechler 2012), each of which sees only what is its own."""
    near = x < math.log(2)
    one = tf.ones_like(x)
    below = tf.math.log(-tf.math.expm1(-tf.where(near, x, one)))
    above = tf.math.log1p(-tf.exp(-tf.where(near, one, x)))
    return tf.where(near, below, above)


def logaddexp(tf: Any, x1: Any, x2: Any) -> Any:
    """The larger argument and what the smaller adds to it."""
    first = x1 >= x2
    larger, smaller = tf.where(first, x1, x2), tf.where(first, x2, x1)
    return larger + tf.nn.softplus(smaller - larger)


ROWS: dict[str, Lowering] = {
    "exp": "exp",
    "exp2": exp2,
    "expm1": "math.expm1",
    "log": "math.log",
    "log10": log10,
    "log1mexp": log1mexp,
    "log1p": "math.log1p",
    "log2": log2,
    "logaddexp": logaddexp,
    "sigmoid": "sigmoid",
    "softplus": "nn.softplus",
    "tanh": "tanh",
    "xlog1py": "math.xlog1py",
    "xlogy": "math.xlogy",
}

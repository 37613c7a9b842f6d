"""Losses that compare element by element, as Keras composes them."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def reduced(tf: Any, terms: Any, reduction: str) -> Any:
    if reduction == "none":
        return terms
    return tf.reduce_mean(terms) if reduction == "mean" else tf.reduce_sum(terms)


def bce(tf: Any, p: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(tf, -(y * tf.math.log(p) + (1 - y) * tf.math.log1p(-p)), reduction)


def bce_with_logits(tf: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    """TensorFlow wants both in one shape."""
    shape = tf.broadcast_static_shape(x.shape, y.shape)
    logits, labels = tf.broadcast_to(x, shape), tf.broadcast_to(y, shape)
    terms = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return reduced(tf, terms, reduction)


def hinge(tf: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(tf, tf.maximum(1 - x * y, 0.0), reduction)


def huber(tf: Any, x: Any, y: Any, delta: float = 1.0, reduction: str = "mean") -> Any:
    error = x - y
    size = tf.abs(error)
    square, line = 0.5 * tf.square(error), delta * size - 0.5 * delta**2
    return reduced(tf, tf.where(size <= delta, square, line), reduction)


def kl_div(tf: Any, log_p: Any, q: Any, reduction: str = "mean") -> Any:
    return reduced(tf, tf.math.xlogy(q, q) - q * log_p, reduction)


def l1(tf: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(tf, tf.abs(x - y), reduction)


def mse(tf: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(tf, tf.math.squared_difference(x, y), reduction)


ROWS: dict[str, Lowering] = {
    "bce": bce,
    "bce_with_logits": bce_with_logits,
    "hinge": hinge,
    "huber": huber,
    "kl_div": kl_div,
    "l1": l1,
    "mse": mse,
}

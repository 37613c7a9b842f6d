"""Directions of vectors, and how near they are."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.tensorflow.ops.losses import reduced


def normalize(tf: Any, x: Any, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Any:
    """tf.math.l2_normalize bounds the square of the norm."""
    if ord == 2:
        return tf.math.l2_normalize(x, axis=axis, epsilon=eps**2)
    return x / tf.maximum(tf.norm(x, ord=ord, axis=axis, keepdims=True), eps)


def cosine_similarity(tf: Any, x1: Any, x2: Any, axis: int = -1, eps: float = 1e-8) -> Any:
    shape = tf.broadcast_static_shape(x1.shape, x2.shape)
    first, second = (normalize(tf, tf.broadcast_to(x, shape), axis=axis, eps=eps) for x in (x1, x2))
    return tf.reduce_sum(first * second, axis=axis)


def triplet(
    tf: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    near = tf.norm(anchor - positive + eps, ord=ord, axis=-1)
    far = tf.norm(anchor - negative + eps, ord=ord, axis=-1)
    return reduced(tf, tf.maximum(margin + near - far, 0.0), reduction)


ROWS: dict[str, Lowering] = {
    "cosine_similarity": cosine_similarity,
    "normalize": normalize,
    "triplet": triplet,
}

"""Layers of networks, as one composes them without Keras."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def dropout(tf: Any, x: Any, mask: Any, rate: float = 0.5) -> Any:
    """tf.nn.dropout draws its own masks; this is what it does with them."""
    return tf.where(mask, x / (1 - rate), tf.zeros_like(x))


def embedding(tf: Any, indices: Any, weight: Any) -> Any:
    return tf.nn.embedding_lookup(weight, indices)


def linear(tf: Any, x: Any, w: Any, b: Any) -> Any:
    if x.shape.rank == 1:
        return tf.linalg.matvec(w, x) + b
    return tf.matmul(x, w, transpose_b=True) + b


def _scores(tf: Any, q: Any, k: Any, scale: float | None) -> Any:
    scores = tf.matmul(q, k, transpose_b=True)
    return scores * (q.shape[-1] ** -0.5 if scale is None else scale)


def masked_attention(tf: Any, q: Any, k: Any, v: Any, mask: Any, scale: float | None = None) -> Any:
    scores = _scores(tf, q, k, scale)
    nothing = tf.constant(-float("inf"), scores.dtype)
    return tf.matmul(tf.nn.softmax(tf.where(mask, scores, nothing)), v)


def scaled_dot_product_attention(
    tf: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: float | None = None
) -> Any:
    if is_causal:
        ones = tf.ones((q.shape[-2], k.shape[-2]), tf.bool)
        return masked_attention(tf, q, k, v, tf.linalg.band_part(ones, -1, 0), scale)
    return tf.matmul(tf.nn.softmax(_scores(tf, q, k, scale)), v)


ROWS: dict[str, Lowering] = {
    "dropout": dropout,
    "embedding": embedding,
    "linear": linear,
    "masked_attention": masked_attention,
    "scaled_dot_product_attention": scaled_dot_product_attention,
}

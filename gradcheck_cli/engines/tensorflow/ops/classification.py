"""Losses of classifiers. TensorFlow has the classes on the last axis."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.tensorflow.ops.losses import reduced


def _classes_last(tf: Any, x: Any) -> Any:
    """Axis 1 moved to the end; the only axis stays."""
    rank = x.shape.rank
    return tf.transpose(x, (0, *range(2, rank), 1)) if rank > 2 else x


def cross_entropy(
    tf: Any, logits: Any, labels: Any, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    logits = _classes_last(tf, logits)
    if label_smoothing:
        classes = logits.shape[-1]
        q = tf.one_hot(labels, classes, dtype=logits.dtype)
        q = q * (1 - label_smoothing) + label_smoothing / classes
        terms = tf.nn.softmax_cross_entropy_with_logits(labels=q, logits=logits)
    else:
        terms = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return reduced(tf, terms, reduction)


def soft_cross_entropy(
    tf: Any, logits: Any, probabilities: Any, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    """tf.nn.softmax_cross_entropy_with_logits has no second derivative by both: it gives zeros."""
    logits, q = _classes_last(tf, logits), _classes_last(tf, probabilities)
    if label_smoothing:
        q = q * (1 - label_smoothing) + label_smoothing / logits.shape[-1]
    terms = -tf.reduce_sum(q * tf.nn.log_softmax(logits), axis=-1)
    return reduced(tf, terms, reduction)


def nll(tf: Any, log_p: Any, labels: Any, reduction: str = "mean") -> Any:
    log_p = _classes_last(tf, log_p)
    terms = -tf.gather(log_p, labels, axis=-1, batch_dims=labels.shape.rank)
    return reduced(tf, terms, reduction)


ROWS: dict[str, Lowering] = {
    "cross_entropy": cross_entropy,
    "nll": nll,
    "soft_cross_entropy": soft_cross_entropy,
}

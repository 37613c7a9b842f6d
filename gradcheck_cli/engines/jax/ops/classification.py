"""Losses of classifiers, as one composes them: JAX itself has none."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.jax.ops.losses import reduced
from gradcheck_cli.engines.kit.lowerings import Lowering


def _classes_last(jax: Any, x: Any) -> Any:
    """Axis 1 moved to the end; the only axis stays."""
    return jax.numpy.moveaxis(x, 1, -1) if x.ndim > 2 else x


def soft_cross_entropy(
    jax: Any, logits: Any, probabilities: Any, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    logits, q = _classes_last(jax, logits), _classes_last(jax, probabilities)
    if label_smoothing:
        q = q * (1 - label_smoothing) + label_smoothing / logits.shape[-1]
    terms = -(q * jax.nn.log_softmax(logits, axis=-1)).sum(axis=-1)
    return reduced(jax, terms, reduction)


def cross_entropy(
    jax: Any, logits: Any, labels: Any, label_smoothing: float = 0.0, reduction: str = "mean"
) -> Any:
    logits = _classes_last(jax, logits)
    likely = jax.nn.log_softmax(logits, axis=-1)
    if label_smoothing:
        classes = logits.shape[-1]
        q = jax.nn.one_hot(labels, classes, dtype=logits.dtype)
        q = q * (1 - label_smoothing) + label_smoothing / classes
        return reduced(jax, -(q * likely).sum(axis=-1), reduction)
    return reduced(jax, -_chosen(jax, likely, labels), reduction)


def _chosen(jax: Any, likely: Any, labels: Any) -> Any:
    return jax.numpy.take_along_axis(likely, labels[..., None], axis=-1)[..., 0]


def nll(jax: Any, log_p: Any, labels: Any, reduction: str = "mean") -> Any:
    return reduced(jax, -_chosen(jax, _classes_last(jax, log_p), labels), reduction)


ROWS: dict[str, Lowering] = {
    "cross_entropy": cross_entropy,
    "nll": nll,
    "soft_cross_entropy": soft_cross_entropy,
}

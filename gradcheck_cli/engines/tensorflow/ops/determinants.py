"""Determinants."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def logdet(tf: Any, x: Any) -> Any:
    """tf.linalg.logdet takes positive definite matrices only."""
    sign, size = tf.linalg.slogdet(x)
    return tf.where(sign < 0, tf.constant(float("nan"), x.dtype), size)


def slogdet_logabs(tf: Any, x: Any) -> Any:
    return tf.linalg.slogdet(x)[1]


def slogdet_sign(tf: Any, x: Any) -> Any:
    """Cut off, or TensorFlow would invert x for a gradient of 0."""
    return tf.stop_gradient(tf.linalg.slogdet(x)[0])


ROWS: dict[str, Lowering] = {
    "det": "linalg.det",
    "logdet": logdet,
    "slogdet_logabs": slogdet_logabs,
    "slogdet_sign": slogdet_sign,
}

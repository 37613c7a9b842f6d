"""Activation functions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Limited, Lowering


def elu(tf: Any, x: Any, alpha: float = 1.0) -> Any:
    """tf.nn.elu knows no alpha; scaled as Keras does it."""
    y = tf.nn.elu(x)
    return y if alpha == 1 else tf.where(x > 0, y, alpha * y)


def hardtanh(tf: Any, x: Any, min: float = -1.0, max: float = 1.0) -> Any:
    return tf.clip_by_value(x, min, max)


def leaky_relu(tf: Any, x: Any, negative_slope: float = 0.01) -> Any:
    return tf.nn.leaky_relu(x, alpha=negative_slope)


def mish(tf: Any, x: Any) -> Any:
    return x * tf.tanh(tf.nn.softplus(x))


ROWS: dict[str, Lowering] = {
    "elu": elu,
    "gelu": Limited("nn.gelu", "it rounds its constants to float32", constants="float32"),
    "hardtanh": hardtanh,
    "leaky_relu": Limited(leaky_relu, "it rounds its slope to float32", constants="float32"),
    "log_sigmoid": "math.log_sigmoid",
    "mish": mish,
    "selu": "nn.selu",
    "silu": "nn.silu",
    "softsign": Limited(
        "nn.softsign", "no gradient of SoftsignGrad is registered", reverse_only=True
    ),
}

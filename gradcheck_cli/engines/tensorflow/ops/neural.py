"""Normalised exponentials."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def logsumexp(tf: Any, x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    return tf.reduce_logsumexp(x, axis=axis, keepdims=keepdims)


ROWS: dict[str, Lowering] = {
    "log_softmax": "nn.log_softmax",
    "logsumexp": logsumexp,
    "softmax": "nn.softmax",
}

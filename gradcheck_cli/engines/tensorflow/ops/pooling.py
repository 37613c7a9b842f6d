"""Pooling. TensorFlow's has the channels last on the CPU."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import Pair, each
from gradcheck_cli.engines.kit.lowerings import Lowering

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def _padded(tf: Any, x: Any, padding: Pair, fill: float) -> Any:
    """Channels last. Pooling with explicit padding has no second derivative in TensorFlow, and the
    mean has none at all; padding before it has."""
    x = tf.transpose(x, LAST)
    if not any(each(padding, 2)):
        return x
    widths = [[0, 0], *([p, p] for p in each(padding, 2)), [0, 0]]
    return tf.pad(x, widths, constant_values=tf.constant(fill, x.dtype))


def _moves(kernel_size: Pair, stride: Pair | None) -> dict[str, Any]:
    strides = each(kernel_size if stride is None else stride, 2)
    return {"ksize": each(kernel_size, 2), "strides": strides, "padding": "VALID"}


def max_pool2d(
    tf: Any, x: Any, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0
) -> Any:
    x = _padded(tf, x, padding, -float("inf"))
    return tf.transpose(tf.nn.max_pool2d(x, **_moves(kernel_size, stride)), FIRST)


def avg_pool2d(
    tf: Any,
    x: Any,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
) -> Any:
    moves = _moves(kernel_size, stride)
    y = tf.nn.avg_pool2d(_padded(tf, x, padding, 0.0), **moves)
    if not count_include_pad:
        y = y / tf.nn.avg_pool2d(_padded(tf, tf.ones_like(x), padding, 0.0), **moves)
    return tf.transpose(y, FIRST)


ROWS: dict[str, Lowering] = {"avg_pool2d": avg_pool2d, "max_pool2d": max_pool2d}

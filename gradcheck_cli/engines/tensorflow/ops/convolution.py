"""Convolutions. TensorFlow's have the channels last on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck_cli.engines.kit.axes import Pair, each
from gradcheck_cli.engines.kit.lowerings import Lowering


def _channels_last(tf: Any, x: Any) -> Any:
    return tf.transpose(x, (0, *range(2, x.shape.rank), 1))


def _channels_first(tf: Any, x: Any) -> Any:
    rank = x.shape.rank
    return tf.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def _kernel(tf: Any, w: Any, dilation: tuple[int, ...]) -> Any:
    """The kernel in TensorFlow's order, spread out by zeros where it is dilated: on the CPU there
    is no gradient through `dilations`."""
    w = tf.transpose(w, (*range(2, w.shape.rank), 1, 0))
    for axis, step in enumerate(dilation):
        if step > 1:
            length = w.shape[axis]
            spread = tf.expand_dims(w, axis + 1)
            widths = [[0, 0]] * spread.shape.rank
            widths[axis + 1] = [0, step - 1]
            shape = (*w.shape[:axis], length * step, *w.shape[axis + 1 :])
            spread = tf.reshape(tf.pad(spread, widths), shape)
            w = spread[(slice(None),) * axis + (slice(0, (length - 1) * step + 1),)]
    return w


def _by_groups(
    tf: Any, x: Any, w: Any, groups: int, axis: int, convolve: Callable[[Any, Any], Any]
) -> Any:
    """Group by group: on the CPU there is no gradient through grouped convolutions. `axis` is that
    of the kernel on which the groups lie."""
    if groups == 1:
        return convolve(x, w)
    parts = zip(tf.split(x, groups, axis=-1), tf.split(w, groups, axis=axis), strict=True)
    return tf.concat([convolve(part, kernel) for part, kernel in parts], axis=-1)


def conv1d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    (step,), (width,) = each(stride, 1), each(padding, 1)
    x = tf.pad(_channels_last(tf, x), [[0, 0], [width, width], [0, 0]])
    w = _kernel(tf, w, each(dilation, 1))
    y = _by_groups(
        tf, x, w, groups, -1, lambda x, w: tf.nn.conv1d(x, w, stride=step, padding="VALID")
    )
    return _channels_first(tf, y)


def conv2d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    widths = [[0, 0], *([p, p] for p in each(padding, 2)), [0, 0]]
    w = _kernel(tf, w, each(dilation, 2))

    def convolve(x: Any, w: Any) -> Any:
        return tf.nn.conv2d(x, w, strides=each(stride, 2), padding=widths)

    return _channels_first(tf, _by_groups(tf, _channels_last(tf, x), w, groups, -1, convolve))


def conv_transpose2d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    steps, widths, extra = (each(value, 2) for value in (stride, padding, output_padding))
    x, w = _channels_last(tf, x), _kernel(tf, w, each(dilation, 2))
    size = [
        (x.shape[i + 1] - 1) * steps[i] - 2 * widths[i] + w.shape[i] + extra[i] for i in range(2)
    ]
    around = [[0, 0], *([p, p] for p in widths), [0, 0]]

    def convolve(x: Any, w: Any) -> Any:
        shape = (x.shape[0], *size, w.shape[2])
        return tf.nn.conv2d_transpose(x, w, shape, strides=steps, padding=around)

    return _channels_first(tf, _by_groups(tf, x, w, groups, -1, convolve))


ROWS: dict[str, Lowering] = {
    "conv1d": conv1d,
    "conv2d": conv2d,
    "conv_transpose2d": conv_transpose2d,
}

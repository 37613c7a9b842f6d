"""Rows of the op table (`ops`) about neural networks: convolutions, pooling, layers, losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.engines.kit.axes import Pair, per_axis
from gradcheck_cli.engines.tensorflow.shapes import moveaxis

# Losses of classifiers. TensorFlow has the classes on the last axis


# tf.nn.softmax_cross_entropy_with_logits returns zeros for the mixed second derivative by logits
# and labels. For labels that are probabilities, the loss is composed.


def _classes_last(tf: Any, x: Any) -> Any:
    return moveaxis(tf, x, 1, -1) if x.shape.rank > 2 else x


def cross_entropy(tf: Any, logits: Any, labels: Any, label_smoothing: float) -> Any:
    logits = _classes_last(tf, logits)
    if label_smoothing:
        classes = logits.shape[-1]
        q = tf.one_hot(labels, classes, dtype=logits.dtype)
        q = q * (1 - label_smoothing) + label_smoothing / classes
        return tf.nn.softmax_cross_entropy_with_logits(labels=q, logits=logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def nll(tf: Any, log_p: Any, labels: Any) -> Any:
    log_p = _classes_last(tf, log_p)
    return -tf.gather(log_p, labels, axis=-1, batch_dims=labels.shape.rank)


# Convolutions. TensorFlow's have the channels last on the CPU


def _channels_last(tf: Any, x: Any) -> Any:
    return tf.transpose(x, (0, *range(2, x.shape.rank), 1))


def _channels_first(tf: Any, x: Any) -> Any:
    rank = x.shape.rank
    return tf.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def _kernel(tf: Any, w: Any, dilation: tuple[int, ...]) -> Any:
    """The kernel in TensorFlow's axis order, with zeros inserted if it is dilated: on the CPU,
    `dilations` have no gradient."""
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


def _by_groups(tf: Any, x: Any, w: Any, groups: int, convolve: Callable[[Any, Any], Any]) -> Any:
    """The convolution of each group separately: on the CPU, grouped convolutions have no
    gradient."""
    if groups == 1:
        return convolve(x, w)
    parts = zip(tf.split(x, groups, axis=-1), tf.split(w, groups, axis=-1), strict=True)
    return tf.concat([convolve(part, kernel) for part, kernel in parts], axis=-1)


def conv1d(
    tf: Any, x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    (step,), (width,) = per_axis(stride, 1), per_axis(padding, 1)
    x = tf.pad(_channels_last(tf, x), [[0, 0], [width, width], [0, 0]])
    w = _kernel(tf, w, per_axis(dilation, 1))
    y = _by_groups(tf, x, w, groups, lambda x, w: tf.nn.conv1d(x, w, stride=step, padding="VALID"))
    return _channels_first(tf, y)


def conv2d(
    tf: Any, x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    widths = [[0, 0], *([p, p] for p in per_axis(padding, 2)), [0, 0]]
    w = _kernel(tf, w, per_axis(dilation, 2))

    def convolve(x: Any, w: Any) -> Any:
        return tf.nn.conv2d(x, w, strides=per_axis(stride, 2), padding=widths)

    return _channels_first(tf, _by_groups(tf, _channels_last(tf, x), w, groups, convolve))


def conv_transpose2d(
    tf: Any,
    x: Any,
    w: Any,
    stride: Pair,
    padding: Pair,
    output_padding: Pair,
    dilation: Pair,
    groups: int,
) -> Any:
    steps, widths, extra = (per_axis(value, 2) for value in (stride, padding, output_padding))
    x, w = _channels_last(tf, x), _kernel(tf, w, per_axis(dilation, 2))
    size = [
        (x.shape[i + 1] - 1) * steps[i] - 2 * widths[i] + w.shape[i] + extra[i] for i in range(2)
    ]
    around = [[0, 0], *([p, p] for p in widths), [0, 0]]

    def convolve(x: Any, w: Any) -> Any:
        shape = (x.shape[0], *size, w.shape[2])
        return tf.nn.conv2d_transpose(x, w, shape, strides=steps, padding=around)

    return _channels_first(tf, _by_groups(tf, x, w, groups, convolve))


# Layers of networks, composed without Keras


def dropout(tf: Any, x: Any, mask: Any, rate: float) -> Any:
    """The formula of tf.nn.dropout with a given mask, because that function draws its own."""
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


def masked_attention(tf: Any, q: Any, k: Any, v: Any, mask: Any, scale: float | None) -> Any:
    scores = _scores(tf, q, k, scale)
    nothing = tf.constant(-float("inf"), scores.dtype)
    return tf.matmul(tf.nn.softmax(tf.where(mask, scores, nothing)), v)


def scaled_dot_product_attention(
    tf: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float | None
) -> Any:
    if is_causal:
        ones = tf.ones((q.shape[-2], k.shape[-2]), tf.bool)
        return masked_attention(tf, q, k, v, tf.linalg.band_part(ones, -1, 0), scale)
    return tf.matmul(tf.nn.softmax(_scores(tf, q, k, scale)), v)


# Losses that compare element by element, as Keras composes them


def bce_with_logits(tf: Any, x: Any, y: Any) -> Any:
    """The loss of two arrays in one shape, as TensorFlow requires."""
    shape = tf.broadcast_static_shape(x.shape, y.shape)
    logits, labels = tf.broadcast_to(x, shape), tf.broadcast_to(y, shape)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def hinge(tf: Any, x: Any, y: Any) -> Any:
    return tf.maximum(1 - x * y, 0.0)


# Normalisation of layers


def _normalised(tf: Any, x: Any, axes: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    """Normalise without tf.nn.moments, which stops the gradient of the mean inside the variance and
    so makes second derivatives wrong."""
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.math.reduce_variance(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, bias, weight, eps)


def _by_channel(tf: Any, x: Any, parameter: Any) -> Any:
    """A parameter of shape (C,) along axis 1 of x."""
    return tf.reshape(parameter, (-1, *(1,) * (x.shape.rank - 2)))


def batch_norm(tf: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = (0, *range(2, x.shape.rank))
    weight, bias = _by_channel(tf, x, weight), _by_channel(tf, x, bias)
    return _normalised(tf, x, axes, weight, bias, eps)


def group_norm(tf: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    size = math.prod(x.shape[1:]) // num_groups
    groups = tf.reshape(x, (x.shape[0], num_groups, size))
    normed = tf.reshape(_normalised(tf, groups, (2,), None, None, eps), x.shape)
    return normed * _by_channel(tf, x, weight) + _by_channel(tf, x, bias)


def layer_norm(tf: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes = tuple(range(-weight.shape.rank, 0))
    return _normalised(tf, x, axes, weight, bias, eps)


def rms_norm(tf: Any, x: Any, weight: Any, eps: float) -> Any:
    axes = tuple(range(-weight.shape.rank, 0))
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), axes, keepdims=True) + eps) * weight


# Pooling. TensorFlow's has the channels last on the CPU


LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def _padded(tf: Any, x: Any, padding: Pair, fill: float) -> Any:
    """Pad x, with channels last. In TensorFlow, pooling with explicit padding has no second
    derivative, and mean pooling has none at all; padding first avoids this."""
    x = tf.transpose(x, LAST)
    if not any(per_axis(padding, 2)):
        return x
    widths = [[0, 0], *([p, p] for p in per_axis(padding, 2)), [0, 0]]
    return tf.pad(x, widths, constant_values=tf.constant(fill, x.dtype))


def _moves(kernel_size: Pair, stride: Pair | None) -> dict[str, Any]:
    strides = per_axis(kernel_size if stride is None else stride, 2)
    return {"ksize": per_axis(kernel_size, 2), "strides": strides, "padding": "VALID"}


def max_pool2d(tf: Any, x: Any, kernel_size: Pair, stride: Pair | None, padding: Pair) -> Any:
    x = _padded(tf, x, padding, -float("inf"))
    return tf.transpose(tf.nn.max_pool2d(x, **_moves(kernel_size, stride)), FIRST)


def avg_pool2d(
    tf: Any, x: Any, kernel_size: Pair, stride: Pair | None, padding: Pair, count_include_pad: bool
) -> Any:
    moves = _moves(kernel_size, stride)
    y = tf.nn.avg_pool2d(_padded(tf, x, padding, 0.0), **moves)
    if not count_include_pad:
        y = y / tf.nn.avg_pool2d(_padded(tf, tf.ones_like(x), padding, 0.0), **moves)
    return tf.transpose(y, FIRST)

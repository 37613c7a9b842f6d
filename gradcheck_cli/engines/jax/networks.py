"""Rows of the op table (`ops`) about neural networks: convolutions, pooling, layers, losses."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.axes import Pair, per_axis
from gradcheck_cli.engines.kit.compositions import classes_last

# Losses of classifiers, composed: JAX has none


def cross_entropy(xp: Any, logits: Any, labels: Any, label_smoothing: float) -> Any:
    logits = classes_last(xp, logits)
    likely = xp.log_softmax(logits, axis=-1)
    if not label_smoothing:
        return -_chosen(xp, likely, labels)
    classes = logits.shape[-1]
    q = xp.one_hot(labels, num_classes=classes, dtype=logits.dtype)
    q = q * (1 - label_smoothing) + label_smoothing / classes
    return -xp.sum(q * likely, axis=-1)


def _chosen(xp: Any, likely: Any, labels: Any) -> Any:
    return xp.take_along_axis(likely, labels[..., None], axis=-1)[..., 0]


def nll(xp: Any, log_p: Any, labels: Any) -> Any:
    return -_chosen(xp, classes_last(xp, log_p), labels)


# Convolutions. JAX also has the channels on axis 1 by default


def convolution(
    jax: Any, x: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    axes = x.ndim - 2
    return jax.lax.conv_general_dilated(
        x,
        w,
        per_axis(stride, axes),
        [(width, width) for width in per_axis(padding, axes)],
        rhs_dilation=per_axis(dilation, axes),
        feature_group_count=groups,
    )


def conv_transpose2d(
    jax: Any,
    x: Any,
    w: Any,
    stride: Pair,
    padding: Pair,
    output_padding: Pair,
    dilation: Pair,
    groups: int,
) -> Any:
    """A convolution of the array dilated by the strides, with a flipped kernel:
    jax.lax.conv_transpose does not support groups."""
    channels, out, *size = w.shape
    kernel = w.reshape(groups, channels // groups, out, *size).swapaxes(1, 2)
    kernel = kernel.reshape(groups * out, channels // groups, *size)
    around = zip(
        per_axis(padding, 2), per_axis(output_padding, 2), per_axis(dilation, 2), size, strict=True
    )
    widths = [(step * (n - 1) - p, step * (n - 1) - p + extra) for p, extra, step, n in around]
    return jax.lax.conv_general_dilated(
        x,
        jax.numpy.flip(kernel, (2, 3)),
        (1, 1),
        widths,
        lhs_dilation=per_axis(stride, 2),
        rhs_dilation=per_axis(dilation, 2),
        feature_group_count=groups,
    )


# Layers of networks, composed


def dropout(jax: Any, x: Any, mask: Any, rate: float) -> Any:
    return jax.numpy.where(mask, x / (1 - rate), 0)


def embedding(jax: Any, indices: Any, weight: Any) -> Any:
    return weight[indices]


def linear(jax: Any, x: Any, w: Any, b: Any) -> Any:
    return x @ w.T + b


def masked_attention(jax: Any, q: Any, k: Any, v: Any, mask: Any, scale: float | None) -> Any:
    """Attention with a mask. jax.nn.dot_product_attention takes another order of axes."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = jax.numpy.where(mask, scores, -jax.numpy.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def scaled_dot_product_attention(
    jax: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float | None
) -> Any:
    mask = jax.numpy.tri(q.shape[-2], k.shape[-2], dtype=bool) if is_causal else None
    return masked_attention(jax, q, k, v, mask, scale)


# Losses that compare element by element, composed: JAX has none


def bce_with_logits(xp: Any, x: Any, y: Any) -> Any:
    return -y * xp.log_sigmoid(x) - (1 - y) * xp.log_sigmoid(-x)


def mse(xp: Any, x: Any, y: Any) -> Any:
    return xp.square(x - y)


# Normalisation of layers, composed


def _normalised(jax: Any, x: Any, axes: tuple[int, ...], eps: float) -> Any:
    mean = x.mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + eps)


def _by_channel(x: Any, parameter: Any) -> Any:
    """A parameter of shape (C,) along axis 1 of x."""
    return parameter.reshape(-1, *(1,) * (x.ndim - 2))


def batch_norm(jax: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    y = _normalised(jax, x, (0, *range(2, x.ndim)), eps)
    return y * _by_channel(x, weight) + _by_channel(x, bias)


def group_norm(jax: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    size = math.prod(x.shape[1:]) // num_groups
    groups = x.reshape(x.shape[0], num_groups, size)
    y = _normalised(jax, groups, (2,), eps).reshape(x.shape)
    return y * _by_channel(x, weight) + _by_channel(x, bias)


def layer_norm(jax: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _normalised(jax, x, tuple(range(-weight.ndim, 0)), eps) * weight + bias


def rms_norm(jax: Any, x: Any, weight: Any, eps: float) -> Any:
    axes = tuple(range(-weight.ndim, 0))
    return x * jax.lax.rsqrt((x * x).mean(axis=axes, keepdims=True) + eps) * weight


# Pooling, composed from windows


def _windows(kernel_size: Pair, stride: Pair | None, padding: Pair) -> tuple[Any, ...]:
    """Lengths, strides and padding over all four axes."""
    steps = per_axis(kernel_size if stride is None else stride, 2)
    widths = [(0, 0), (0, 0), *((p, p) for p in per_axis(padding, 2))]
    return (1, 1, *per_axis(kernel_size, 2)), (1, 1, *steps), widths


def max_pool2d(jax: Any, x: Any, kernel_size: Pair, stride: Pair | None, padding: Pair) -> Any:
    windows = _windows(kernel_size, stride, padding)
    return jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, *windows)


def avg_pool2d(
    jax: Any, x: Any, kernel_size: Pair, stride: Pair | None, padding: Pair, count_include_pad: bool
) -> Any:
    windows = _windows(kernel_size, stride, padding)
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, *windows)
    if count_include_pad:
        height, width = per_axis(kernel_size, 2)
        return total / (height * width)
    return total / jax.lax.reduce_window(jax.numpy.ones_like(x), 0.0, jax.lax.add, *windows)

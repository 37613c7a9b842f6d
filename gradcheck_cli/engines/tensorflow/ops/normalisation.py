"""Normalisation of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _normalised(tf: Any, x: Any, axes: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    """Not by tf.nn.moments: it stops the mean inside the variance, which makes second derivatives
    wrong."""
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.math.reduce_variance(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, bias, weight, eps)


def _by_channel(tf: Any, x: Any, parameter: Any) -> Any:
    """A parameter of shape (C,) along axis 1 of x."""
    return tf.reshape(parameter, (-1, *(1,) * (x.shape.rank - 2)))


def batch_norm(tf: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    axes = (0, *range(2, x.shape.rank))
    weight, bias = _by_channel(tf, x, weight), _by_channel(tf, x, bias)
    return _normalised(tf, x, axes, weight, bias, eps)


def group_norm(tf: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5) -> Any:
    size = math.prod(x.shape[1:]) // num_groups
    groups = tf.reshape(x, (x.shape[0], num_groups, size))
    normed = tf.reshape(_normalised(tf, groups, (2,), None, None, eps), x.shape)
    return normed * _by_channel(tf, x, weight) + _by_channel(tf, x, bias)


def layer_norm(tf: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    axes = tuple(range(-weight.shape.rank, 0))
    return _normalised(tf, x, axes, weight, bias, eps)


def rms_norm(tf: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    axes = tuple(range(-weight.shape.rank, 0))
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), axes, keepdims=True) + eps) * weight


ROWS: dict[str, Lowering] = {
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}

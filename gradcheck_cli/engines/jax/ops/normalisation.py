"""Normalisation of layers, as one composes it."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _normalised(jax: Any, x: Any, axes: tuple[int, ...], eps: float) -> Any:
    mean = x.mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + eps)


def _by_channel(x: Any, parameter: Any) -> Any:
    """A parameter of shape (C,) along axis 1 of x."""
    return parameter.reshape(-1, *(1,) * (x.ndim - 2))


def batch_norm(jax: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    y = _normalised(jax, x, (0, *range(2, x.ndim)), eps)
    return y * _by_channel(x, weight) + _by_channel(x, bias)


def group_norm(jax: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5) -> Any:
    size = math.prod(x.shape[1:]) // num_groups
    groups = x.reshape(x.shape[0], num_groups, size)
    y = _normalised(jax, groups, (2,), eps).reshape(x.shape)
    return y * _by_channel(x, weight) + _by_channel(x, bias)


def layer_norm(jax: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    return _normalised(jax, x, tuple(range(-weight.ndim, 0)), eps) * weight + bias


def rms_norm(jax: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    axes = tuple(range(-weight.ndim, 0))
    return x * jax.lax.rsqrt((x * x).mean(axis=axes, keepdims=True) + eps) * weight


ROWS: dict[str, Lowering] = {
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}

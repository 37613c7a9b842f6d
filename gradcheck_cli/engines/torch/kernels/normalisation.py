"""Kernels of layers that normalise. Each also returns the mean and the scale that it used."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.trace.exact_kernels import Kernel, row


def _moments(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    mean = row("mean")(x, axis=axes, keepdims=True)
    return mean, row("rsqrt")(row("var")(x, axis=axes, keepdims=True) + eps)


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    mean, scale = _moments(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)
    return _affine((x - mean) * scale, weight, bias), mean, scale


def _along_channels(x: Any, ndim: int) -> Any:
    """One number for each channel, shaped for axis 1 of `ndim` axes."""
    return None if x is None else row("reshape")(x, shape=(-1, *(1,) * (ndim - 2)))


def _batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    weight, bias, mean, var = (
        _along_channels(a, x.ndim) for a in (weight, bias, running_mean, running_var)
    )
    if not training:
        y = (x - mean) * row("rsqrt")(var + eps)
        return _affine(y, weight, bias), *_two_empty(x)
    mean, scale = _moments(x, tuple(i for i in range(x.ndim) if i != 1), eps)
    flat = [row("reshape")(a, shape=(-1,)) for a in (mean, scale)]
    return _affine((x - mean) * scale, weight, bias), *flat


def _two_empty(x: Any) -> tuple[Any, Any]:
    empty = row("getitem")(row("reshape")(x, shape=(-1,)), index=slice(0, 0))
    return empty, empty


def _group_norm(
    x: Any, weight: Any, bias: Any, n: int, channels: int, inner: int, groups: int, eps: float
) -> Any:
    mean, scale = _moments(row("reshape")(x, shape=(n, groups, -1)), (2,), eps)
    y = (row("reshape")(x, shape=(n, groups, -1)) - mean) * scale
    y = row("reshape")(y, shape=x.shape)
    parameters = (_along_channels(a, x.ndim) for a in (weight, bias))
    flat = [row("reshape")(a, shape=(n, groups)) for a in (mean, scale)]
    return _affine(y, *parameters), *flat


NORMALISATION: dict[str, Kernel] = {
    "native_layer_norm": _layer_norm,
    "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm,
}

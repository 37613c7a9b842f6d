"""The kernels of ATen's derivatives as functions of their own arguments. They keep ATen's order of
operations, which the search relies on (`search.enclosures.faithful`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcheck_cli.engines.torch.kernels.losses import BOUNDED_BELOW
from gradcheck_cli.engines.trace import exact_kernels as exact
from gradcheck_cli.engines.trace.exact_kernels import Kernel, row


def _threshold(g: Any, x: Any, threshold: float) -> Any:
    return exact.nothing_where(row("less_equal")(x, float(threshold)), g)


def _softplus(g: Any, x: Any, beta: float, threshold: float) -> Any:
    grown = row("exp")(x * beta)
    slope = g * grown / (grown + 1)
    return row("where")(row("greater")(x * beta, float(threshold)), g, slope)


def _log_sigmoid(g: Any, x: Any, buffer: Any) -> Any:
    share = row("exp")(-row("abs")(x))
    share = share / (1 + share)
    return g * row("where")(row("less")(x, 0.0), 1 - share, share)


def _silu(g: Any, x: Any) -> Any:
    y = row("sigmoid")(x)
    return g * y * (1 + x * (1 - y))


def _gelu(g: Any, x: Any, *, approximate: str = "none") -> Any:
    if approximate == "none":
        return g * (row("ndtr")(x) + x * row("normal_density")(x))
    # `GeluBackwardKernelImpl` in aten/src/ATen/native/cpu/Activation.cpp
    scale, share, square = math.sqrt(2 / math.pi), 0.044715, x * x
    y = row("tanh")(scale * (x + share * (square * x)))
    inner = scale * (1 + 3 * share * square)
    return g * (0.5 * (1 + y) + 0.5 * x * (1 - y * y) * inner)


def _elu(g: Any, alpha: float, scale: float, inner: float, from_result: bool, x: Any) -> Any:
    """The vjp of elu. For x <= 0 the slope is y + alpha scale, from the result y, or alpha scale
    exp(x)."""
    left = float(alpha) * float(scale)
    slope = x + left if from_result else left * row("exp")(x * inner)
    return row("where")(row("less_equal")(x, 0.0), g * inner * slope, g * scale)


def _leaky_relu(g: Any, x: Any, slope: float, from_result: bool) -> Any:
    return row("where")(row("greater")(x, 0.0), g, g * float(slope))


def _hardtanh(g: Any, x: Any, low: float, high: float) -> Any:
    outside = row("less_equal")(x, float(low)) | row("greater_equal")(x, float(high))
    return exact.nothing_where(outside, g)


def _mse(g: Any, x: Any, y: Any, reduction: int) -> Any:
    return (2 / x.size if reduction == 1 else 2.0) * (x - y) * g


def _huber(g: Any, x: Any, y: Any, reduction: int, delta: float) -> Any:
    slope = exact.clamped(x - y, -float(delta), float(delta))
    return (1 / x.size if reduction == 1 else 1.0) * slope * g


def _layer_norm(
    g: Any, x: Any, shape: Any, mean: Any, scale: Any, weight: Any, bias: Any, wanted: Any
) -> Any:
    rank = x.ndim - len(shape)
    inner, outer = tuple(range(rank, x.ndim)), tuple(range(rank))
    y = (x - mean) * scale
    scaled = g if weight is None else g * weight
    if exact.is_general(x):
        along = _as_the_kernel_has_it(scaled, x, mean, scale, inner)
        bars = along, row("sum")(g * y, axis=outer), row("sum")(g, axis=outer)
        return tuple(bar for bar, asked in zip(bars, wanted, strict=True) if asked)
    average = row("mean")(scaled, axis=inner, keepdims=True)
    along = y * row("mean")(scaled * y, axis=inner, keepdims=True)
    bars = (
        scale * (scaled - average - along),
        row("sum")(g * y, axis=outer),
        row("sum")(g, axis=outer),
    )
    return tuple(bar for bar, asked in zip(bars, wanted, strict=True) if asked)


def _as_the_kernel_has_it(g: Any, x: Any, mean: Any, scale: Any, axes: tuple[int, ...]) -> Any:
    """The derivative of a normalisation as a line in x, which loses more digits if the mean is
    large. (`LayerNormBackward` in aten/src/ATen/native/cpu/layer_norm_kernel.cpp.)"""
    share = 1 / math.prod(x.shape[i] for i in axes)
    products, total = (row("sum")(part, axis=axes, keepdims=True) for part in (g * x, g))
    slope = (total * mean - products) * scale * scale * scale * share
    return scale * g + slope * x + (-slope * mean - total * scale * share)


def _nll(
    g: Any, log_p: Any, labels: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    axis = min(log_p.ndim - 1, 1)
    kept = labels != ignore_index
    places = np.expand_dims(np.where(kept, labels, 0), axis)
    at_label = np.zeros(log_p.shape, np.bool_)
    np.put_along_axis(at_label, places, np.expand_dims(kept, axis), axis)
    along = g / total if reduction == 1 else g
    if reduction == 0:
        along = row("reshape")(along, shape=places.shape)
    along = -along
    if weight is not None:
        along = along * row("reshape")(weight, shape=(-1, *(1,) * (log_p.ndim - 1 - axis)))
    return row("where")(at_label, along, 0.0)


def _cross_entropy(g: Any, p: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
    slope = (p - y) / (p * (1 - p))
    if exact.is_general(p):
        slope = row("where")(p * (1 - p) >= BOUNDED_BELOW, slope, np.inf)
    slope = slope if weight is None else slope * weight
    return g * slope / (p.size if reduction == 1 else 1)


DERIVATIVES: dict[str, Kernel] = {
    "binary_cross_entropy_backward": _cross_entropy,
    **dict.fromkeys(("nll_loss_backward", "nll_loss2d_backward"), _nll),
    "silu_backward": _silu,
    "gelu_backward": _gelu,
    "elu_backward": _elu,
    "leaky_relu_backward": _leaky_relu,
    "hardtanh_backward": _hardtanh,
    "logit_backward": lambda g, x, eps=None: g / (x * (1 - x)),
    "mse_loss_backward": _mse,
    "huber_loss_backward": _huber,
    "native_layer_norm_backward": _layer_norm,
    "tanh_backward": exact.tanh_grad,
    "sigmoid_backward": lambda g, y: g * (1 - y) * y,
    "threshold_backward": _threshold,
    "softplus_backward": _softplus,
    "log_sigmoid_backward": _log_sigmoid,
    "_softmax_backward_data": lambda g, y, dim, dtype: exact.softmax_grad(g, y, dim),
    "_log_softmax_backward_data": lambda g, y, dim, dtype: exact.log_softmax_grad(g, y, dim),
}

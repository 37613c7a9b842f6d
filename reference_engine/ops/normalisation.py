"""Normalisation of layers: (x - mean) / sqrt(variance + eps) over some axes, scaled and shifted."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import in_float32
from reference_engine.op import Composite, Op, Point, Rounding, composite, internal
from reference_engine.ops.arithmetic import divide, sqrt, square
from reference_engine.ops.control import stop_gradient
from reference_engine.ops.reductions import mean
from reference_engine.ops.shape import reshape
from reference_engine.traced import Value, shape_of, to_array

ROUNDING: Rounding = "inputs"

ARRAYS = ("x", "weight", "bias")
STABILITY = (
    "the variance is the mean of squared deviations, never E[x^2] - E[x]^2; what rounding the mean "
    "left of it is taken off once more; numbers whose squares would overflow are scaled first by a "
    "power of two, which changes neither value nor derivative"
)


@in_float32
def _safe_scale_value(x: Any, *, axis: Any) -> Any:
    largest = np.max(np.abs(x), axis=axis, keepdims=True, initial=0)
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 0))[1] - 1
    highest = np.finfo(x.dtype).maxexp // 2 - 8  # leaves room for a sum of 2^16 squares
    return np.ldexp(np.ones((), x.dtype), np.where(exponent > highest, exponent, 0))


safe_scale: Op = internal("safe_scale", _safe_scale_value, None, rounding="none").says(
    "1, or the power of two next to the largest |x| along the axes if squares of such "
    "numbers could overflow",
    "0: functions that use it do not depend on it",
    source="Blue, A portable Fortran program to find the Euclidean norm (ACM TOMS 4, 1978)",
)


def _standardised(x: Value, axes: tuple[int, ...], eps: float, centred: bool = True) -> Value:
    """(x - mean) / sqrt(variance + eps), computed from x / scale and eps / scale^2, which give the
    same."""
    scale = to_array(safe_scale(x, axis=axes))
    small: Any = eps
    if np.any(scale != 1):
        x = divide(x, scale)
        small = eps / scale / scale  # the square of the scale may overflow
    if centred:
        x = x - mean(x, axis=axes, keepdims=True)
        x = x - stop_gradient(mean(x, axis=axes, keepdims=True))  # 0 but for rounding
    return divide(x, sqrt(mean(square(x), axis=axes, keepdims=True) + small))


def _layer_axes(x: Value, weight: Value) -> tuple[int, ...]:
    """The last axes of x, as many as weight has. Raises ValueError if the lengths differ."""
    shape, last = shape_of(x), shape_of(weight)
    if not last or shape[-len(last) :] != last:
        raise ValueError(f"the last axes of x, {shape}, must be those of weight, {last}")
    return tuple(range(-len(last), 0))


def _layer_norm(x: Value, weight: Value, bias: Value, *, eps: float = 1e-5) -> Value:
    axes = _layer_axes(x, weight)
    _layer_axes(x, bias)
    return _standardised(x, axes, eps) * weight + bias


def _rms_norm(x: Value, weight: Value, *, eps: float = 1e-5) -> Value:
    return _standardised(x, _layer_axes(x, weight), eps, centred=False) * weight


def _by_channel(x: Value, *parameters: Value) -> list[Value]:
    """Parameters of shape (C,) along axis 1 of x. Raises ValueError if they do not fit."""
    shape = shape_of(x)
    if len(shape) < 2 or any(shape_of(p) != (shape[1],) for p in parameters):
        given = " and ".join(str(shape_of(p)) for p in parameters)
        raise ValueError(f"x must be (N, C, ...), weight and bias (C,), not {shape} and {given}")
    along = (shape[1], *(1,) * (len(shape) - 2))
    return [reshape(p, shape=along) for p in parameters]


def _batch_norm(x: Value, weight: Value, bias: Value, *, eps: float = 1e-5) -> Value:
    weight, bias = _by_channel(x, weight, bias)
    axes = (0, *range(2, len(shape_of(x))))
    return _standardised(x, axes, eps) * weight + bias


def _group_norm(
    x: Value, weight: Value, bias: Value, *, num_groups: int, eps: float = 1e-5
) -> Value:
    weight, bias = _by_channel(x, weight, bias)
    shape = shape_of(x)
    if num_groups < 1 or shape[1] % num_groups:
        raise ValueError(f"{shape[1]} channels do not fall into {num_groups} groups")
    size = int(np.prod(shape[1:])) // num_groups
    groups = reshape(x, shape=(shape[0], num_groups, size))
    return reshape(_standardised(groups, (-1,), eps), shape=shape) * weight + bias


DERIVATIVE = (
    "with z the normalised x and s = sqrt(variance + eps): z_dot = (x_dot - mean(x_dot) - "
    "z mean(z x_dot)) / s"
)
_A, _S = float(np.sqrt(1.5)), 1e200


# (-s, 0, s) with s^2 beyond every number, and the weight of the first element alone
OVERFLOW = Point(
    "|x| so large that x^2 overflows",
    "limit",
    ([-_S, 0.0, _S], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ([_A / _S / 6, -_A / _S / 3, _A / _S / 6], [-_A, 0.0, _A], 1.0),
).because(
    "normalisation does not depend on the scale; the variance is inf in the frameworks",
    frameworks=([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 1.0),
)


layer_norm: Composite = composite("layer_norm", _layer_norm, points=(OVERFLOW,)).says(
    "(x - mean) / sqrt(variance + eps) * weight + bias, with mean and population variance "
    "over the axes of weight, which are the last ones of x; bias has the shape of weight",
    DERIVATIVE,
    domain="eps > 0, or x not constant",
    stability=STABILITY,
    source="Ba, Kiros, Hinton, Layer normalization (2016); torch.nn.functional.layer_norm",
)


rms_norm: Composite = composite("rms_norm", _rms_norm).says(
    "x / sqrt(mean(x^2) + eps) * weight, with the mean over the axes of weight, which are "
    "the last ones of x. (PyTorch's default eps is that of the dtype; here it is one number, so "
    "that the function does not change with the dtype)",
    "with z the normalised x and s = sqrt(mean(x^2) + eps): z_dot = (x_dot - z mean(z x_dot)) / s",
    domain="eps > 0, or x not 0",
    stability="numbers whose squares would overflow are scaled first by a power of two, which "
    "changes neither value nor derivative",
    source="Zhang, Sennrich, Root mean square layer normalization (2019)",
)


batch_norm: Composite = composite("batch_norm", _batch_norm).says(
    "(x - mean) / sqrt(variance + eps) * weight + bias for x of shape (N, C, ...), with "
    "mean and population variance of each channel over all other axes, as in training; weight and "
    "bias have the shape (C,)",
    DERIVATIVE,
    domain="eps > 0, or no channel constant",
    stability=STABILITY,
    source="Ioffe, Szegedy, Batch normalization (ICML 2015); torch.nn.functional.batch_norm with "
    "training=True",
)


group_norm: Composite = composite("group_norm", _group_norm).says(
    "(x - mean) / sqrt(variance + eps) * weight + bias for x of shape (N, C, ...), with "
    "mean and population variance over each of num_groups groups of channels of each image; weight "
    "and bias have the shape (C,)",
    DERIVATIVE,
    domain="eps > 0, or no group constant",
    stability=STABILITY,
    source="Wu, He, Group normalization (ECCV 2018); torch.nn.functional.group_norm",
)

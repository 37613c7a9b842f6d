"""Convolutions. JAX too has the channels on axis 1 unless told otherwise."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import Pair, each
from gradcheck_cli.engines.kit.lowerings import Lowering


def convolution(
    jax: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    axes = x.ndim - 2
    return jax.lax.conv_general_dilated(
        x,
        w,
        each(stride, axes),
        [(width, width) for width in each(padding, axes)],
        rhs_dilation=each(dilation, axes),
        feature_group_count=groups,
    )


def conv_transpose2d(
    jax: Any,
    x: Any,
    w: Any,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """A convolution of the array spread out by the strides, with the kernel turned around:
    jax.lax.conv_transpose knows no groups."""
    channels, out, *size = w.shape
    kernel = w.reshape(groups, channels // groups, out, *size).swapaxes(1, 2)
    kernel = kernel.reshape(groups * out, channels // groups, *size)
    around = zip(each(padding, 2), each(output_padding, 2), each(dilation, 2), size, strict=True)
    widths = [(step * (n - 1) - p, step * (n - 1) - p + extra) for p, extra, step, n in around]
    return jax.lax.conv_general_dilated(
        x,
        jax.numpy.flip(kernel, (2, 3)),
        (1, 1),
        widths,
        lhs_dilation=each(stride, 2),
        rhs_dilation=each(dilation, 2),
        feature_group_count=groups,
    )


ROWS: dict[str, Lowering] = {
    "conv1d": convolution,
    "conv2d": convolution,
    "conv_transpose2d": conv_transpose2d,
}

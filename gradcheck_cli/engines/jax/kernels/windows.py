"""Primitives that move a window over an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import Kernel, row
from gradcheck_cli.engines.trace.window_kernels import convolution, pooled, spread, windows_of


def _convolution(
    x: Any,
    weight: Any,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **how: Any,
) -> Any:
    if batch_group_count != 1 or not window_strides:
        raise TypeError("only convolutions over some axis, with one batch group, are supported")
    x = _permuted(x, dimension_numbers.lhs_spec)
    weight = _permuted(weight, dimension_numbers.rhs_spec)
    x = spread(x, lhs_dilation)
    y = convolution(x, weight, window_strides, padding, rhs_dilation, feature_group_count)
    return _permuted(y, np.argsort(dimension_numbers.out_spec).tolist())


def _permuted(x: Any, axes: Sequence[int]) -> Any:
    return x if list(axes) == sorted(axes) else row("transpose")(x, axes=tuple(axes))


def _reduce_window(reduce: str) -> Kernel:
    def kernel(
        x: Any,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        base_dilation: Sequence[int],
        window_dilation: Sequence[int],
    ) -> Any:
        if set(base_dilation) != {1}:
            raise TypeError("only windows over an array without base dilation are supported")
        geometry = (window_dimensions, window_strides, padding, window_dilation)
        return pooled(x, windows_of(x.shape, *geometry), reduce)

    return kernel


WINDOWS: dict[str, Kernel] = {
    "conv_general_dilated": _convolution,
    **{f"reduce_window_{name}": _reduce_window(name) for name in ("sum", "max", "min")},
}

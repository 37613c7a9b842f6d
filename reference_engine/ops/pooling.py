"""Pooling: the largest element or the mean in each window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.errors import Shape, ShapeError
from reference_engine.floats import Array
from reference_engine.op import REQUIRED, Composite, Op, Point, Rounding, composite, internal
from reference_engine.ops.arithmetic import divide
from reference_engine.ops.convolution import Windows, fold_into, unfolded, windows_over
from reference_engine.ops.reductions import max_, sum_
from reference_engine.ops.selection import where
from reference_engine.rules import Linear
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "none"


def _windows(shape: Shape, kernel_size: Any, stride: Any, padding: Any) -> Windows:
    """The windows of a pooling; a stride of None is the length of the window. Raises ValueError."""
    if len(shape) != 4:
        raise ValueError("x must be (N, C, H, W)")
    stride = kernel_size if stride is None else stride
    windows = windows_over(shape[2:], kernel_size, stride, padding)
    if any(2 * p > k for p, k in zip(windows.padding, windows.kernel, strict=True)):
        raise ValueError("padding must be at most half of kernel_size")
    return windows


def _patches_value(x: Any, kernel_size: Any, stride: Any, padding: Any) -> Any:
    x = np.asarray(x)
    windows = _windows(x.shape, kernel_size, stride, padding)
    return unfolded(x, windows).reshape(*x.shape[:2], windows.window_size, *windows.steps)


patches: Op = internal(
    "patches",
    _patches_value,
    Linear(lambda g, x, **moves: unpatch(g, size=shape_of(x)[2:], **moves)),
    keywords={"kernel_size": REQUIRED, "stride": REQUIRED, "padding": REQUIRED},
).says(
    "(N, C, K, *places): the K elements that a window sees at each of its places over "
    "x, 0 outside of it",
    "patches; transposed: add each element where it was taken from",
    source="torch.nn.functional.unfold",
)


def _unpatch_value(
    y: Any, *, size: tuple[int, ...], kernel_size: Any, stride: Any, padding: Any
) -> Any:
    windows = _windows((*y.shape[:2], *size), kernel_size, stride, padding)
    x = np.zeros((*y.shape[:2], *windows.padded), y.dtype)
    fold_into(x, y.reshape(*y.shape[:2], *windows.kernel, *windows.steps), windows)
    return x[windows.inside]


unpatch: Op = internal(
    "unpatch",
    _unpatch_value,
    Linear(lambda g, y, size, **moves: patches(g, **moves)),
    rounding="result",
).says(
    "zeros with the spatial lengths `size`, and each element of y added where patches "
    "takes it from",
    "unpatch; transposed: patches",
    source="torch.nn.functional.fold",
)


def _result_shape(name: str) -> Callable[..., Shape]:
    def result_shape(
        x: Shape, kernel_size: Any, stride: Any = None, padding: Any = 0, **_: Any
    ) -> Shape:
        try:
            return (*x[:2], *_windows(x, kernel_size, stride, padding).steps)
        except ValueError as error:
            raise ShapeError(name, (x,), str(error)) from error

    return result_shape


def _padding_mask(x: Value, kernel_size: Any, stride: Any, padding: Any) -> Array:
    """A mask of the elements of the patches that lie in the padding, of shape (K, *places)."""
    ones = np.ones((1, 1, *shape_of(x)[2:]), np.bool_)
    seen: Array = _patches_value(ones, kernel_size, stride, padding)[0, 0]
    return ~seen


def _max_pool(x: Value, *, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Value:
    seen = patches(x, kernel_size=kernel_size, stride=stride, padding=padding)
    outside = _padding_mask(x, kernel_size, stride, padding)
    return max_(where(outside, -np.inf, seen) if outside.any() else seen, axis=2)


def _max_pool_kinks(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Any:
    seen = _patches_value(x, kernel_size, stride, padding)
    seen = np.where(_padding_mask(x, kernel_size, stride, padding), -np.inf, seen)
    return np.sum(np.equal(seen, np.max(seen, axis=2, keepdims=True)), axis=2) > 1


max_pool2d: Composite = composite(
    "max_pool2d",
    _max_pool,
    points=(
        Point(
            "k elements of a window tie",
            "tie",
            ([[[[2.0, 2.0, 0.0, 2.0]]]],),
            ([[[[0.5, 0.5, 0.0, 1.0]]]],),
            {"kernel_size": (1, 2)},
        ).because(
            "1/k each, as for max; kernels of frameworks remember one index, the first",
            frameworks=([[[[1.0, 0.0, 0.0, 1.0]]]],),
        ),
    ),
    kinks_at=_max_pool_kinks,
    result_shape=_result_shape("max_pool2d"),
).says(
    "the largest element that a window sees at each of its places over x of shape "
    "(N, C, H, W); the padding is -inf. Numbers or pairs; a stride of None is kernel_size",
    "1 for the largest element of a window, 0 for the others",
    domain="padding at most half of kernel_size",
    source="torch.nn.functional.max_pool2d",
)


def _avg_pool(
    x: Value,
    *,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    count_include_pad: bool = True,
) -> Value:
    seen = patches(x, kernel_size=kernel_size, stride=stride, padding=padding)
    counted = shape_of(seen)[2]
    if not count_include_pad:
        counted = np.sum(~_padding_mask(x, kernel_size, stride, padding), axis=0).astype(seen.dtype)
    return divide(sum_(seen, axis=2), counted)


avg_pool2d: Composite = composite(
    "avg_pool2d", _avg_pool, rounding="sums", result_shape=_result_shape("avg_pool2d")
).says(
    "the mean of what a window sees at each of its places over x of shape (N, C, H, W); "
    "the padding is 0, and counts unless count_include_pad is False. Numbers or pairs; a stride of "
    "None is kernel_size",
    "1 / number of elements, for every element of a window",
    domain="padding at most half of kernel_size",
    source="torch.nn.functional.avg_pool2d",
)

"""Kernels that move a window over the last axes: convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import Kernel, OfRun, row
from gradcheck_cli.engines.trace.window_kernels import (
    Windows,
    convolution,
    joined,
    pooled,
    starting,
)


def _convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    spatial = weight.ndim - 2
    batched = x if x.ndim == weight.ndim else row("expand_dims")(x, axis=0)
    how = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    how["output_padding"] = tuple(output_padding)
    inside = all(more < step for more, step in zip(output_padding, stride, strict=True))
    if not transposed:
        around = [(before, before) for before in padding]
        y = convolution(batched, weight, stride, around, dilation, groups)
    elif spatial == 2 and inside:
        y = row("conv_transpose2d")(batched, weight, groups=groups, **how)
    else:
        y = _by_matrices(batched, weight, groups, **how)
    if bias is not None:
        y = y + row("reshape")(bias, shape=(-1, *(1,) * spatial))
    return y if x.ndim == weight.ndim else row("squeeze")(y, axis=0)


def _by_matrices(
    x: Any,
    weight: Any,
    groups: int,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
) -> Any:
    """A transposed convolution over any number of axes: the elements that reach each place, times
    the weights."""
    sizes, kernel = x.shape[2:], weight.shape[2:]
    geometry = zip(sizes, kernel, stride, padding, dilation, output_padding, strict=True)
    tables = [_transposed(*axis) for axis in geometry]
    table = np.array(joined(tables, sizes))
    pool = row("pad")(
        row("reshape")(x, shape=(*x.shape[:2], -1)), pad_width=((0, 0), (0, 0), (0, 1))
    )
    taken = row("take")(pool, table, axis=2)  # batch, channel, place, element of the window
    grouped = row("reshape")(taken, shape=(x.shape[0], groups, -1, *table.shape))
    per = row("reshape")(weight, shape=(groups, -1, weight.shape[1], table.shape[1]))
    y = row("einsum")(grouped, per, subscripts="ngcpk,gcok->ngop")
    return row("reshape")(y, shape=(x.shape[0], -1, *(len(windows) for windows in tables)))


def _transposed(
    size: int, kernel: int, stride: int, padding: int, dilation: int, output_padding: int
) -> Windows:
    """For each place and each weight, the element that reaches the place through the weight."""
    places = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1
    windows = []
    for i in range(places):
        steps = [divmod(i + padding - dilation * k, stride) for k in range(kernel)]
        windows.append([q if rest == 0 and 0 <= q < size else -1 for q, rest in steps])
    return windows


def _per_axis(value: Sequence[int], spatial: int) -> list[int]:
    return list(value) * spatial if len(value) == 1 else list(value)


def _pool_starts(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> list[int]:
    """The start of each window. No window starts in the padding after the last element."""
    rest = size + 2 * padding - dilation * (kernel - 1) - 1
    places = (rest + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (places - 1) * stride >= size + padding:
        places -= 1
    return [i * stride - padding for i in range(places)]


def _max_pool(spatial: int) -> Kernel:
    def kernel(
        x: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> Any:
        """The maxima and their positions."""
        how = [
            _per_axis(v, spatial) for v in (kernel_size, stride or kernel_size, padding, dilation)
        ]
        if spatial == 2 and x.ndim == 4 and not ceil_mode and set(how[3]) == {1}:
            size, step, around = (tuple(v) for v in how[:3])
            return row("max_pool2d")(x, kernel_size=size, stride=step, padding=around), None
        tables = [
            starting(_pool_starts(n, k, s, p, d, ceil_mode), n, k, d)
            for n, k, s, p, d in zip(x.shape[-spatial:], *how, strict=True)
        ]
        return pooled(x, tables, "max"), None

    return kernel


def _avg_pool(spatial: int) -> Kernel:
    def kernel(
        x: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        how = [_per_axis(v, spatial) for v in (kernel_size, stride or kernel_size, padding)]
        if spatial == 2 and x.ndim == 4 and not ceil_mode and divisor_override is None:
            size, step, around = (tuple(v) for v in how)
            return row("avg_pool2d")(
                x,
                kernel_size=size,
                stride=step,
                padding=around,
                count_include_pad=count_include_pad,
            )
        tables, counts = [], []
        for n, k, s, p in zip(x.shape[-spatial:], *how, strict=True):
            starts = _pool_starts(n, k, s, p, 1, ceil_mode)
            tables.append(starting(starts, n, k, 1))
            counts.append([min(i + k, n + p) - i for i in starts])
        if not count_include_pad and divisor_override is None:
            return pooled(x, tables, "mean")
        divisors = np.array([math.prod(one) for one in product(*counts)], np.float64)
        if divisor_override is not None:
            divisors[:] = divisor_override
        return pooled(x, tables, "sum") / divisors.reshape([len(one) for one in counts])

    return kernel


def _adaptive(spatial: int, reduce: str) -> Kernel:
    def kernel(x: Any, output_size: Sequence[int]) -> Any:
        tables = [
            [list(range(i * n // m, -(-(i + 1) * n // m))) for i in range(m)]
            for n, m in zip(x.shape[-spatial:], _per_axis(output_size, spatial), strict=True)
        ]
        y = pooled(x, tables, reduce)
        return (y, None) if reduce == "max" else y

    return kernel


def _taken_at(spatial: int) -> Callable[..., Any]:
    def kernel(run: OfRun, x: Any, *how: Any) -> Any:
        """The elements that the run chose, and their positions."""
        places = run.results[1]
        outer = x.shape[: x.ndim - spatial]
        flat = row("reshape")(x, shape=(*outer, -1))
        y = row("take_along_axis")(flat, places.reshape(*outer, -1), axis=-1)
        return row("reshape")(y, shape=places.shape), None

    return kernel


WINDOWS: dict[str, Kernel] = {
    "convolution": _convolution,
    **{f"max_pool{n}d_with_indices": _max_pool(n) for n in (2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (2, 3)},
    **{f"_adaptive_avg_pool{n}d": _adaptive(n, "mean") for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive(n, "max") for n in (2, 3)},
}

CHOSEN: dict[str, Kernel] = {f"fractional_max_pool{n}d": _taken_at(n) for n in (2, 3)}

"""Windows that move over the last axes, and places that are reduced together: the building blocks
of all frameworks' convolutions and poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import row

Windows = list[list[int]]
"""Along one axis, for each place of the window the elements that it takes; -1 is padding."""


def convolution(
    x: Any,
    weight: Any,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    """x (n, c, *sizes) and weight (o, c / groups, *kernel) over any number of axes. `padding` is
    the width before and after; negative widths cut off."""
    how = {"stride": tuple(strides), "dilation": tuple(dilation), "groups": groups}
    spatial = weight.ndim - 2
    if spatial <= 2 and all(0 <= before == after for before, after in padding):
        around = tuple(before for before, _ in padding)
        return row("conv1d" if spatial == 1 else "conv2d")(x, weight, padding=around, **how)
    x = padded(x, [(0, 0), (0, 0), *padding])
    if spatial <= 2:
        return row("conv1d" if spatial == 1 else "conv2d")(x, weight, **how)
    none = [(0, 0)] * spatial
    tables = windows_of(x.shape[2:], weight.shape[2:], strides, none, dilation)
    table = np.array(joined(tables, x.shape[2:]))
    taken = row("take")(row("reshape")(x, shape=(*x.shape[:2], -1)), table, axis=2)
    grouped = row("reshape")(taken, shape=(x.shape[0], groups, -1, *table.shape))
    per = row("reshape")(weight, shape=(groups, -1, weight.shape[1], table.shape[1]))
    y = row("einsum")(grouped, per, subscripts="ngcpk,gock->ngop")
    return row("reshape")(y, shape=(x.shape[0], -1, *(len(windows) for windows in tables)))


def spread(x: Any, dilation: Sequence[int]) -> Any:
    """Inserts zeros between the elements along the last axes."""
    first = x.ndim - len(dilation)
    for axis, step in enumerate(dilation, first):
        if step > 1:
            size = x.shape[axis]
            places = [i // step if i % step == 0 else size for i in range((size - 1) * step + 1)]
            widths = tuple((0, int(i == axis)) for i in range(x.ndim))
            x = row("take")(row("pad")(x, pad_width=widths), np.array(places), axis=axis)
    return x


def padded(x: Any, padding: Sequence[tuple[int, int]], value: float = 0.0) -> Any:
    """x with this many numbers before and after along each axis; negative widths cut off."""
    inner = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(padding, x.shape, strict=True)
    )
    widths = tuple((max(a, 0), max(b, 0)) for a, b in padding)
    if any(min(pair) < 0 for pair in padding):
        x = row("getitem")(x, index=inner)
    return row("pad")(x, pad_width=widths, value=value)


def windows_of(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> list[Windows]:
    """For each axis, all windows that fit into it and its padding."""
    tables = []
    geometry = zip(sizes, window, strides, padding, dilation, strict=True)
    for n, k, step, (before, after), wide in geometry:
        places = (n + before + after - wide * (k - 1) - 1) // step + 1
        tables.append(starting([i * step - before for i in range(places)], n, k, wide))
    return tables


def starting(starts: Sequence[int], size: int, kernel: int, dilation: int) -> Windows:
    """The places of each window; -1 for places outside of the array."""
    reach = [dilation * k for k in range(kernel)]
    return [[i + k if 0 <= i + k < size else -1 for k in reach] for i in starts]


def joined(axes: Sequence[Windows], sizes: Sequence[int]) -> Windows:
    """The windows over all axes, as places in the flattened array with these sizes."""
    found: Windows = [[0]]
    for windows, size in zip(axes, sizes, strict=True):
        found = [
            [-1 if a < 0 or b < 0 else a * size + b for a, b in product(before, window)]
            for before, window in product(found, windows)
        ]
    return found


def pooled(x: Any, tables: Sequence[Windows], reduce: str) -> Any:
    """The elements of each window, reduced. Padding is left out."""
    spatial = len(tables)
    outer, sizes = x.shape[: x.ndim - spatial], x.shape[x.ndim - spatial :]
    windows = [[i for i in window if i >= 0] for window in joined(tables, sizes)]
    y = of_groups(row("reshape")(x, shape=(*outer, math.prod(sizes))), windows, reduce)
    return row("reshape")(y, shape=(*outer, *(len(windows) for windows in tables)))


def of_groups(pool: Any, groups: Sequence[Sequence[int]], reduce: str) -> Any:
    """Each group of places along the last axis, reduced: "sum", "mean", "prod", "max" or "min"."""
    counts = np.array([len(group) for group in groups])
    longest = max(counts, default=0)
    if reduce in ("max", "min"):  # the first one again, which changes no extreme
        table = [[*group, *(group[0],) * (longest - len(group))] for group in groups]
    else:
        last = pool.shape[-1]
        widths = (*((0, 0),) * (pool.ndim - 1), (0, 1))
        pool = row("pad")(pool, pad_width=widths, value=1.0 if reduce == "prod" else 0.0)
        table = [[*group, *(last,) * (longest - len(group))] for group in groups]
    places = np.array(table, np.int64).reshape(len(groups), longest)
    members = row("take")(pool, places, axis=-1)
    if reduce == "mean":
        return row("sum")(members, axis=-1) / np.maximum(counts, 1).astype(np.float64)
    return row(reduce)(members, axis=-1)

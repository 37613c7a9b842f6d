"""Primitives that write to positions of an array, or sort elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.engines.trace.exact_kernels import (
    Kernel,
    OfRun,
    as_floating,
    is_general,
    is_symbol,
    row,
)
from gradcheck_cli.engines.trace.window_kernels import of_groups


def _destinations(
    shape: Sequence[int], indices: Any, updates: Sequence[int], numbers: Any, mode: Any
) -> Any:
    """For each update, its position in a flattened array of this shape; -1 if the update is
    dropped. `numbers` are `jax.lax.ScatterDimensionNumbers`."""
    at = np.indices(updates)
    batch = tuple(at[d] for d in range(len(updates)) if d not in numbers.update_window_dims)
    outside = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    inside = [d for d in range(len(shape)) if d not in outside]
    starts, sizes = [np.zeros(updates, np.int64) for _ in shape], [1] * len(shape)
    for k, d in enumerate(numbers.scatter_dims_to_operand_dims):
        starts[d] += indices[(*batch, k)]
    pairs = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    for d, k in pairs:
        starts[d] += batch[k]
    for u, d in zip(numbers.update_window_dims, inside, strict=True):
        sizes[d] = updates[u]
    valid = np.ones(updates, np.bool_)
    for d, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        if getattr(mode, "name", "") == "CLIP":
            starts[d] = np.clip(starts[d], 0, n - size)
        valid &= (starts[d] >= 0) & (starts[d] <= n - size)
    for u, d in zip(numbers.update_window_dims, inside, strict=True):
        starts[d] = starts[d] + at[u]
    if not shape:
        return np.zeros(updates, np.int64)
    places = np.ravel_multi_index(tuple(starts), tuple(shape), mode="clip")
    return np.where(valid, places, -1).reshape(-1)


def _scatter(reduce: str) -> Kernel:
    def kernel(
        x: Any, indices: Any, updates: Any, dimension_numbers: Any, mode: Any, **how: Any
    ) -> Any:
        """Reduce all updates of a position together with its element."""
        if is_symbol(indices):
            return _added_in_order(x, indices, updates, dimension_numbers, reduce)
        if all(isinstance(one, np.ndarray) and one.dtype.kind in "biu" for one in (x, updates)):
            raise TypeError("only updates of floating-point numbers are supported")
        places = _destinations(x.shape, indices, updates.shape, dimension_numbers, mode)
        flat, more = (row("reshape")(as_floating(one), shape=(-1,)) for one in (x, updates))
        if reduce == "sum":
            kept = np.flatnonzero(places >= 0)
            more = row("take")(more, kept, axis=0)
            y = row("scatter_add")(flat, places[kept], more, axis=0)
        else:
            groups = [[i] for i in range(flat.size)]
            for k, place in enumerate(places):
                if place >= 0:
                    groups[place].append(flat.size + k)
            y = of_groups(row("concatenate")(flat, more, axis=0), groups, reduce)
        return row("reshape")(y, shape=x.shape)

    return kernel


def _added_in_order(x: Any, indices: Any, updates: Any, numbers: Any, reduce: str) -> Any:
    """Zeros with the updates at places along one axis that depend on numbers, as in the derivative
    of `sort`. Raises TypeError for all else."""
    (axis,) = numbers.scatter_dims_to_operand_dims
    others = tuple(d for d in range(updates.ndim) if d != axis)
    batches = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    alone = not numbers.update_window_dims and batches == (others, others)
    if reduce != "sum" or is_symbol(x) or np.any(x != 0) or not alone:
        raise TypeError("places that depend on numbers are taken of zeros alone")
    places = row("reshape")(indices, shape=updates.shape)
    return row("scatter_add")(np.zeros(x.shape), places, updates, axis=axis)


def _sort(run: OfRun, *xs: Any, dimension: int, num_keys: int, **how: Any) -> Any:
    """Sort along an axis, in the order that the keys had in the run. A program that also holds for
    other numbers sorts one array, beside the places of its elements."""
    if len(xs) == 1:
        return row("sort")(xs[0], axis=dimension)
    if any(map(is_general, xs)):
        places = np.indices(xs[0].shape)[dimension]
        if not all(isinstance(x, np.ndarray) and np.array_equal(x, places) for x in xs[1:]):
            raise TypeError("only one array is sorted")
        return tuple(row(name)(xs[0], axis=dimension) for name in ("sort", "argsort")[: len(xs)])
    order = np.lexsort([np.asarray(key) for key in run.args[:num_keys][::-1]], axis=dimension)
    return tuple(
        None if isinstance(x, np.ndarray) else row("take_along_axis")(x, order, axis=dimension)
        for x in xs
    )


def _top_k(run: OfRun, x: Any, *, k: int, axis: int = -1, **how: Any) -> Any:
    """The largest elements, and their positions, which are those of the run in all but a program
    that also holds for other numbers."""
    values = row("topk_values")(x, k=k, axis=axis)
    return values, row("topk_indices")(x, k=k, axis=axis) if is_general(x) else None


INDEXING: dict[str, Kernel] = {
    "scatter-add": _scatter("sum"),
    "scatter-mul": _scatter("prod"),
    "scatter-max": _scatter("max"),
    "scatter-min": _scatter("min"),
}

CHOSEN: dict[str, Kernel] = {"sort": _sort, "top_k": _top_k}

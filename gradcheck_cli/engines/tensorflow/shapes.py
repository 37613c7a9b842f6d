"""Rows of the op table (`ops`) that move elements: shapes, indices, order."""

from __future__ import annotations

from math import prod
from typing import Any

from gradcheck_cli.engines.kit.axes import (
    axes_of,
    from_the_start,
    moved_axes,
    new_axes,
    restored,
    shape_of,
    widths_of,
)

# Arrays made from their shape alone


def full(tf: Any, shape: Any, fill_value: float, dtype: Any) -> Any:
    return tf.fill(shape_of(shape), tf.constant(fill_value, dtype))


def eye(tf: Any, n: int, m: int | None, k: int, dtype: Any) -> Any:
    columns = n if m is None else m
    if k == 0:
        return tf.eye(n, columns, dtype=dtype)
    return tf.cast(tf.range(columns)[None, :] - tf.range(n)[:, None] == k, dtype)


def full_like(tf: Any, x: Any, fill_value: float) -> Any:
    # an integer constant does not accept a float, even if it is whole
    return tf.fill(x.shape, tf.constant(x.dtype.as_numpy_dtype(fill_value), x.dtype))


# Taking arrays apart and putting them together


def take(tf: Any, x: Any, indices: Any, axis: int | None) -> Any:
    axis = axis or 0
    return tf.gather(x, from_the_start(tf, indices, x.shape[axis]), axis=axis)


def take_along_axis(tf: Any, x: Any, indices: Any, axis: int) -> Any:
    """Take elements along an axis. tf.gather takes one index for each row along the last axis, so x
    and indices are broadcast first."""
    place = axis % x.shape.rank
    indices = from_the_start(tf, indices, x.shape[place])
    sizes = [max(n, m) if n and m else 0 for n, m in zip(x.shape, indices.shape, strict=True)]
    own, others = list(sizes), list(sizes)
    own[place], others[place] = x.shape[place], indices.shape[place]
    x = moveaxis(tf, tf.broadcast_to(x, own), place, -1)
    indices = moveaxis(tf, tf.broadcast_to(indices, others), place, -1)
    y = tf.gather(x, indices, axis=-1, batch_dims=x.shape.rank - 1)
    return moveaxis(tf, y, -1, place)


def scatter_add(tf: Any, x: Any, indices: Any, updates: Any, axis: int) -> Any:
    """Add updates at indices along an axis. tf.tensor_scatter_nd_add takes the full position of
    each update."""
    ranges = [tf.range(n, dtype=tf.int64) for n in indices.shape]
    places = tf.meshgrid(*ranges, indexing="ij")
    places[axis] = from_the_start(tf, indices, x.shape[axis])
    return tf.tensor_scatter_nd_add(x, tf.stack(places, axis=-1), updates)


def one_hot(tf: Any, indices: Any, num_classes: int, axis: int, dtype: Any) -> Any:
    place = axis % (indices.shape.rank + 1)
    return tf.one_hot(indices, num_classes, axis=place, dtype=dtype)


# Order statistics


def _direction(descending: bool) -> str:
    return "DESCENDING" if descending else "ASCENDING"


def sort(tf: Any, x: Any, axis: int, descending: bool) -> Any:
    return tf.sort(x, axis=axis, direction=_direction(descending))


def argsort(tf: Any, x: Any, axis: int, descending: bool) -> Any:
    order = tf.argsort(x, axis=axis, direction=_direction(descending), stable=True)
    return tf.cast(order, tf.int64)


def median(tf: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """The mean of the two middle elements, found by sorting: TensorFlow has no median."""
    axes = axes_of(axis, x.shape.rank)
    ordered = tf.sort(flattened(tf, x, axes), axis=-1)
    n = ordered.shape[-1]
    y = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    missing = tf.reduce_any(tf.math.is_nan(ordered), axis=-1)
    y = tf.where(missing, tf.constant(float("nan"), x.dtype), y)
    return tf.reshape(y, restored(x.shape, axes)) if keepdims else y


def _top(tf: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """The values and indices of the k largest or smallest elements. tf.math.top_k finds the largest
    along the last axis."""
    moved = moveaxis(tf, x, axis, -1)
    top = tf.math.top_k(moved if largest else -moved, k=k)
    values = top.values if largest else -top.values
    indices = tf.cast(top.indices, tf.int64)  # without a cast, they break the gradient
    return moveaxis(tf, values, -1, axis), moveaxis(tf, indices, -1, axis)


def topk_values(tf: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
    return _top(tf, x, k, axis, largest)[0]


def topk_indices(tf: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
    return _top(tf, x, k, axis, largest)[1]


# Other shapes for the same elements


def expand_dims(tf: Any, x: Any, axis: Any) -> Any:
    for a in new_axes(axis, x.shape.rank):
        x = tf.expand_dims(x, a)
    return x


def transpose(tf: Any, x: Any, axes: Any) -> Any:
    """Permute the axes. tf.transpose accepts axes counted from the end, but its gradient does
    not."""
    return tf.transpose(x, perm=None if axes is None else [a % x.shape.rank for a in axes])


def moveaxis(tf: Any, x: Any, source: Any, destination: Any) -> Any:
    return tf.transpose(x, perm=moved_axes(source, destination, x.shape.rank))


def flattened(tf: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """x with these axes joined into a last one."""
    rank = x.shape.rank
    order = (*(i for i in range(rank) if i not in axes), *axes)
    kept = [x.shape[i] for i in order[: rank - len(axes)]]
    count = prod(x.shape[i] for i in axes)
    return tf.reshape(tf.transpose(x, perm=order), [*kept, count])


def flip(tf: Any, x: Any, axis: Any) -> Any:
    return tf.reverse(x, axes_of(axis, x.shape.rank))


def roll(tf: Any, x: Any, shift: Any, axis: Any) -> Any:
    """tf.roll, which requires an axis."""
    if axis is None:
        return tf.reshape(tf.roll(tf.reshape(x, [-1]), shift, 0), x.shape)
    return tf.roll(x, shift, axis)


def tile(tf: Any, x: Any, reps: Any) -> Any:
    """tf.tile, which requires a number for each axis."""
    times = shape_of(reps)
    rank = max(len(times), x.shape.rank)
    x = tf.reshape(x, [*(1,) * (rank - x.shape.rank), *x.shape])
    return tf.tile(x, [*(1,) * (rank - len(times)), *times])


def pad(tf: Any, x: Any, pad_width: Any, value: float) -> Any:
    return tf.pad(x, widths_of(pad_width, x.shape.rank), constant_values=value)


def _distance(tf: Any, x: Any) -> Any:
    """The distance of each element of the matrices above the main diagonal."""
    rows, columns = x.shape[-2:]
    return tf.range(columns)[None, :] - tf.range(rows)[:, None]


def tril(tf: Any, x: Any, k: int) -> Any:
    """The lower triangle from any diagonal. tf.linalg.band_part always keeps the main diagonal."""
    if k >= 0:
        return tf.linalg.band_part(x, -1, min(k, x.shape[-1]))
    return tf.where(_distance(tf, x) <= k, x, tf.zeros_like(x))


def triu(tf: Any, x: Any, k: int) -> Any:
    """The upper triangle from any diagonal. tf.linalg.band_part always keeps the main diagonal."""
    if k <= 0:
        return tf.linalg.band_part(x, min(-k, x.shape[-2]), -1)
    return tf.where(_distance(tf, x) >= k, x, tf.zeros_like(x))


def diag(tf: Any, x: Any, k: int) -> Any:
    return tf.linalg.diag(x, k=k) if x.shape.rank == 1 else tf.linalg.diag_part(x, k=k)


def trace(tf: Any, x: Any, offset: int) -> Any:
    """The trace along any diagonal. tf.linalg.trace takes the main diagonal."""
    if offset == 0:
        return tf.linalg.trace(x)
    on_it = tf.where(_distance(tf, x) == offset, x, tf.zeros_like(x))
    return tf.reduce_sum(on_it, axis=[-2, -1])

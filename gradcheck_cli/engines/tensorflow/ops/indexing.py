"""Taking arrays apart and putting them together."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.tensorflow.ops.shape import moveaxis


def concatenate(tf: Any, *xs: Any, axis: int = 0) -> Any:
    return tf.concat(xs, axis=axis)


def stack(tf: Any, *xs: Any, axis: int = 0) -> Any:
    return tf.stack(xs, axis=axis)


def getitem(tf: Any, x: Any, index: tuple[Any, ...]) -> Any:
    return x[index]


def from_the_start(tf: Any, indices: Any, size: int) -> Any:
    """Indices from the end, which TensorFlow does not take, counted from the start."""
    return tf.where(indices < 0, indices + size, indices)


def take(tf: Any, x: Any, indices: Any, axis: int | None = None) -> Any:
    axis = axis or 0
    return tf.gather(x, from_the_start(tf, indices, x.shape[axis]), axis=axis)


def take_along_axis(tf: Any, x: Any, indices: Any, axis: int = -1) -> Any:
    """tf.gather takes one index for each row, along the last axis; both broadcast first."""
    place = axis % x.shape.rank
    indices = from_the_start(tf, indices, x.shape[place])
    sizes = [max(n, m) if n and m else 0 for n, m in zip(x.shape, indices.shape, strict=True)]
    own, others = list(sizes), list(sizes)
    own[place], others[place] = x.shape[place], indices.shape[place]
    x = moveaxis(tf, tf.broadcast_to(x, own), place, -1)
    indices = moveaxis(tf, tf.broadcast_to(indices, others), place, -1)
    y = tf.gather(x, indices, axis=-1, batch_dims=x.shape.rank - 1)
    return moveaxis(tf, y, -1, place)


def scatter_add(tf: Any, x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    """tf.tensor_scatter_nd_add takes the whole place of every update."""
    ranges = [tf.range(n, dtype=tf.int64) for n in indices.shape]
    places = tf.meshgrid(*ranges, indexing="ij")
    places[axis] = from_the_start(tf, indices, x.shape[axis])
    return tf.tensor_scatter_nd_add(x, tf.stack(places, axis=-1), updates)


def one_hot(tf: Any, indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    place = axis % (indices.shape.rank + 1)
    return tf.one_hot(indices, num_classes, axis=place, dtype=dtype)


ROWS: dict[str, Lowering] = {
    "concatenate": concatenate,
    "getitem": getitem,
    "one_hot": one_hot,
    "scatter_add": scatter_add,
    "stack": stack,
    "take": take,
    "take_along_axis": take_along_axis,
}

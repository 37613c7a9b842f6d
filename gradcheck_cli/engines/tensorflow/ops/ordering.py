"""Elements by their size."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, restored
from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.tensorflow.ops.shape import flattened, moveaxis


def _direction(descending: bool) -> str:
    return "DESCENDING" if descending else "ASCENDING"


def sort(tf: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return tf.sort(x, axis=axis, direction=_direction(descending))


def argsort(tf: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    order = tf.argsort(x, axis=axis, direction=_direction(descending), stable=True)
    return tf.cast(order, tf.int64)


def median(tf: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """TensorFlow has none: the mean of the two middle elements comes from sorting."""
    axes = axes_of(axis, x.shape.rank)
    ordered = tf.sort(flattened(tf, x, axes), axis=-1)
    n = ordered.shape[-1]
    y = 0.5 * ordered[..., (n - 1) // 2] + 0.5 * ordered[..., n // 2]
    missing = tf.reduce_any(tf.math.is_nan(ordered), axis=-1)
    y = tf.where(missing, tf.constant(float("nan"), x.dtype), y)
    return tf.reshape(y, restored(x.shape, axes)) if keepdims else y


def _top(tf: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    """tf.math.top_k takes the largest along the last axis."""
    moved = moveaxis(tf, x, axis, -1)
    found = tf.math.top_k(moved if largest else -moved, k=k)
    values = found.values if largest else -found.values
    indices = tf.cast(found.indices, tf.int64)  # asked for themselves, they break the gradient
    return moveaxis(tf, values, -1, axis), moveaxis(tf, indices, -1, axis)


def topk_values(tf: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(tf, x, k, axis, largest)[0]


def topk_indices(tf: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return _top(tf, x, k, axis, largest)[1]


ROWS: dict[str, Lowering] = {
    "argsort": argsort,
    "median": median,
    "sort": sort,
    "topk_indices": topk_indices,
    "topk_values": topk_values,
}

"""Other shapes for the same elements."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.axes import new_axes, shape_of
from gradcheck_cli.engines.lowerings import Lowering


def broadcast_to(tf: Any, x: Any, shape: Any) -> Any:
    return tf.broadcast_to(x, shape_of(shape))


def expand_dims(tf: Any, x: Any, axis: Any) -> Any:
    for a in new_axes(axis, x.shape.rank):
        x = tf.expand_dims(x, a)
    return x


def reshape(tf: Any, x: Any, shape: Any) -> Any:
    return tf.reshape(x, shape_of(shape))


def transpose(tf: Any, x: Any, axes: Any = None) -> Any:
    return tf.transpose(x, perm=axes)


ROWS: dict[str, Lowering] = {
    "broadcast_to": broadcast_to,
    "expand_dims": expand_dims,
    "reshape": reshape,
    "squeeze": "squeeze",
    "transpose": transpose,
}

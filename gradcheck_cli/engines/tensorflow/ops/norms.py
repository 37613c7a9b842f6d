"""Lengths of vectors."""

from __future__ import annotations

from math import inf
from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of, restored
from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.tensorflow.ops.shape import flattened


def norm(tf: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """tf.norm reads two axes as those of a matrix; they become one here."""
    if axis is None or isinstance(axis, tuple):
        axes = axes_of(axis, x.shape.rank)
        y = _along(tf, flattened(tf, x, axes), ord, -1, False)
        return tf.reshape(y, restored(x.shape, axes)) if keepdims else y
    return _along(tf, x, ord, axis, keepdims)


def _along(tf: Any, x: Any, ord: float, axis: int, keepdims: bool) -> Any:
    if ord == -inf:
        return tf.reduce_min(tf.abs(x), axis=axis, keepdims=keepdims)
    return tf.norm(x, ord=ord, axis=axis, keepdims=keepdims)


ROWS: dict[str, Lowering] = {"norm": norm}

"""Sums, products and extremes of everything up to an element."""

from __future__ import annotations

from math import inf
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.tensorflow.ops.shape import moveaxis


def cumsum(tf: Any, x: Any, axis: int | None = None) -> Any:
    return tf.cumsum(x, axis=axis or 0)


def cumprod(tf: Any, x: Any, axis: int | None = None) -> Any:
    return tf.math.cumprod(x, axis=axis or 0)


def _extreme(name: str, beyond: float) -> Lowering:
    """TensorFlow has no running extremes: row i of a table holds the elements up to i."""

    def extreme(tf: Any, x: Any, axis: int | None = None) -> Any:
        moved = moveaxis(tf, x, axis or 0, -1)
        n = moved.shape[-1]
        so_far = tf.range(n)[None, :] <= tf.range(n)[:, None]
        table = tf.where(so_far, moved[..., None, :], tf.constant(beyond, x.dtype))
        return moveaxis(tf, getattr(tf, name)(table, axis=-1), -1, axis or 0)

    return extreme


ROWS: dict[str, Lowering] = {
    "cummax": _extreme("reduce_max", -inf),
    "cummin": _extreme("reduce_min", inf),
    "cumprod": cumprod,
    "cumsum": cumsum,
}

"""Sums, products and extremes over axes."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _argument(name: str) -> Lowering:
    def argument(tf: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        """Without an axis tf.argmax takes the first one, not all of them."""
        call = getattr(tf, name)
        if axis is None:
            index = call(tf.reshape(x, [-1]), axis=0)
            return tf.reshape(index, (1,) * x.shape.rank) if keepdims else index
        index = call(x, axis=axis)
        return tf.expand_dims(index, axis) if keepdims else index

    return argument


ROWS: dict[str, Lowering] = {
    "all": "reduce_all",
    "any": "reduce_any",
    "argmax": _argument("argmax"),
    "argmin": _argument("argmin"),
    "count_nonzero": "math.count_nonzero",
    "max": "reduce_max",
    "mean": "reduce_mean",
    "min": "reduce_min",
    "prod": "reduce_prod",
    "sum": "reduce_sum",
}

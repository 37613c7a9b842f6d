"""Products of matrices."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


def matmul(tf: Any, x: Any, y: Any) -> Any:
    """tf.matmul takes matrices only; a vector becomes one and its axis goes again."""
    left, right = x.shape.rank == 1, y.shape.rank == 1
    x = tf.expand_dims(x, 0) if left else x
    y = tf.expand_dims(y, -1) if right else y
    z = tf.matmul(x, y)
    axes = ([-2] if left else []) + ([-1] if right else [])
    return tf.squeeze(z, axis=axes) if axes else z


ROWS: dict[str, Lowering] = {"matmul": matmul}

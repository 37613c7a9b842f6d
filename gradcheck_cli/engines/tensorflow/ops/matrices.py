"""Equations with matrices, and functions of square matrices."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def matrix_power(tf: Any, x: Any, n: int) -> Any:
    """TensorFlow has none: by squaring."""
    if n == 0:
        return tf.eye(x.shape[-1], batch_shape=x.shape[:-2], dtype=x.dtype)
    square = tf.linalg.inv(x) if n < 0 else x
    product = None
    for bit in reversed(f"{abs(n):b}"):
        if bit == "1":
            product = square if product is None else tf.matmul(product, square)
        square = tf.matmul(square, square)
    return product


def solve(tf: Any, x1: Any, x2: Any) -> Any:
    """tf.linalg.solve takes matrices on the right, and does not broadcast stacks of them."""
    columns = tf.expand_dims(x2, -1) if x2.shape.rank == 1 else x2
    batch = tf.broadcast_static_shape(x1.shape[:-2], columns.shape[:-2])
    x1, columns = (tf.broadcast_to(x, batch + x.shape[-2:]) for x in (x1, columns))
    y = tf.linalg.solve(x1, columns)
    return tf.squeeze(y, -1) if x2.shape.rank == 1 else y


def triangular_solve(tf: Any, x1: Any, x2: Any, lower: bool = True) -> Any:
    if x2.shape.rank == 1:
        columns = tf.expand_dims(x2, -1)
        return tf.squeeze(tf.linalg.triangular_solve(x1, columns, lower=lower), -1)
    return tf.linalg.triangular_solve(x1, x2, lower=lower)


ROWS: dict[str, Lowering] = {
    "expm": "linalg.expm",
    "inv": "linalg.inv",
    "matrix_power": matrix_power,
    "solve": solve,
    "triangular_solve": triangular_solve,
}

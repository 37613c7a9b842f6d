"""Eigenvalues, singular values and their vectors, with the signs that the rows state."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _symmetric(tf: Any, x: Any) -> Any:
    """TensorFlow reads the lower triangle, and its gradient is one of that triangle."""
    return 0.5 * (x + tf.linalg.matrix_transpose(x))


def _signs(tf: Any, v: Any) -> Any:
    """What makes the first large entry of every column positive; one row a matrix."""
    rows = tf.linalg.matrix_transpose(tf.stop_gradient(v))
    size = tf.abs(rows)
    large = size >= 0.9 * tf.reduce_max(size, axis=-1, keepdims=True)
    first = tf.argmax(tf.cast(large, tf.int32), axis=-1)
    decisive = tf.gather(rows, first, batch_dims=rows.shape.rank - 1)
    signs = tf.where(decisive < 0, tf.constant(-1, v.dtype), tf.constant(1, v.dtype))
    return tf.expand_dims(signs, -2)


def _is_empty(x: Any) -> bool:
    return 0 in x.shape


def eigh_vectors(tf: Any, x: Any) -> Any:
    v = tf.linalg.eigh(_symmetric(tf, x))[1]
    return v if _is_empty(v) else v * _signs(tf, v)


def eigvalsh(tf: Any, x: Any) -> Any:
    return tf.linalg.eigvalsh(_symmetric(tf, x))


def svd_u(tf: Any, x: Any) -> Any:
    u = tf.linalg.svd(x)[1]
    return u if _is_empty(u) else u * _signs(tf, u)


def svd_vh(tf: Any, x: Any) -> Any:
    _, u, v = tf.linalg.svd(x)
    return tf.linalg.matrix_transpose(v if _is_empty(u) else v * _signs(tf, u))


def svdvals(tf: Any, x: Any) -> Any:
    return tf.linalg.svd(x, compute_uv=False)


ROWS: dict[str, Lowering] = {
    "eigh_vectors": eigh_vectors,
    "eigvalsh": eigvalsh,
    "svd_u": svd_u,
    "svd_vh": svd_vh,
    "svdvals": svdvals,
}

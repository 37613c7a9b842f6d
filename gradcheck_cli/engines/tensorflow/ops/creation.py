"""Arrays that are made of nothing but their shape."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import shape_of, whole_numbers
from gradcheck_cli.engines.kit.lowerings import Lowering


def arange(tf: Any, start: int, stop: int | None = None, step: int = 1, dtype: Any = None) -> Any:
    numbers = whole_numbers(start, stop, step)
    return tf.range(numbers.start, numbers.stop, numbers.step, dtype=dtype)


def zeros(tf: Any, shape: Any, dtype: Any = None) -> Any:
    return tf.zeros(shape_of(shape), dtype)


def ones(tf: Any, shape: Any, dtype: Any = None) -> Any:
    return tf.ones(shape_of(shape), dtype)


def full(tf: Any, shape: Any, fill_value: float, dtype: Any = None) -> Any:
    return tf.fill(shape_of(shape), tf.constant(fill_value, dtype))


def eye(tf: Any, n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    columns = n if m is None else m
    if k == 0:
        return tf.eye(n, columns, dtype=dtype)
    return tf.cast(tf.range(columns)[None, :] - tf.range(n)[:, None] == k, dtype)


def full_like(tf: Any, x: Any, fill_value: float) -> Any:
    return tf.fill(x.shape, tf.constant(fill_value, x.dtype))


ROWS: dict[str, Lowering] = {
    "arange": arange,
    "eye": eye,
    "full": full,
    "full_like": full_like,
    "ones": ones,
    "ones_like": "ones_like",
    "zeros": zeros,
    "zeros_like": "zeros_like",
}

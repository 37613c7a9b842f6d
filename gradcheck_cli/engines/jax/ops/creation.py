"""Arrays that are made of nothing but their shape."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import shape_of, whole_numbers
from gradcheck_cli.engines.kit.lowerings import Lowering


def arange(jax: Any, start: int, stop: int | None = None, step: int = 1, dtype: Any = None) -> Any:
    numbers = whole_numbers(start, stop, step)
    return jax.numpy.arange(numbers.start, numbers.stop, numbers.step, dtype=dtype)


def zeros(jax: Any, shape: Any, dtype: Any = None) -> Any:
    return jax.numpy.zeros(shape_of(shape), dtype)


def ones(jax: Any, shape: Any, dtype: Any = None) -> Any:
    return jax.numpy.ones(shape_of(shape), dtype)


def full(jax: Any, shape: Any, fill_value: float, dtype: Any = None) -> Any:
    return jax.numpy.full(shape_of(shape), fill_value, dtype)


def eye(jax: Any, n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    return jax.numpy.eye(n, m, k=k, dtype=dtype)


ROWS: dict[str, Lowering] = {
    "arange": arange,
    "eye": eye,
    "full": full,
    "full_like": "numpy.full_like",
    "ones": ones,
    "ones_like": "numpy.ones_like",
    "zeros": zeros,
    "zeros_like": "numpy.zeros_like",
}

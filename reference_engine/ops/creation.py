"""Arrays made from their shape alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import as_dtype
from reference_engine.op import Op, Rounding, row

ROUNDING: Rounding = "none"
SOURCE = "Array API"


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype is None else as_dtype(dtype)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _arange_value(*, start: int, stop: int | None = None, step: int = 1, dtype: Any = None) -> Any:
    """The numbers of a range, which starts at 0 if only one number is given."""
    whole = range(start) if stop is None else range(start, stop, step)
    return np.arange(
        whole.start, whole.stop, whole.step, dtype=None if dtype is None else as_dtype(dtype)
    )


arange: Op = row(
    "arange",
    _arange_value,
    None,
    result_shape=lambda start, stop=None, step=1: (
        len(range(start) if stop is None else range(start, stop, step)),
    ),
).says(
    "the whole numbers start, start + step, ... up to stop, which is left out; "
    "arange(n) starts at 0",
    "none: the result is constant",
    domain="whole numbers, step not 0",
)


def _filled(name: str, function: Any, formula: str) -> Op:
    return row(
        name,
        lambda *, shape, dtype=None: function(_shape(shape), _dtype(dtype)),
        None,
        result_shape=_shape,
    ).says(formula, "none: the result is constant")


zeros = _filled("zeros", np.zeros, "an array of zeros")
ones = _filled("ones", np.ones, "an array of ones")

full: Op = row(
    "full",
    lambda *, shape, fill_value, dtype=None: np.full(_shape(shape), fill_value, _dtype(dtype)),
    None,
    result_shape=lambda shape, fill_value: _shape(shape),
).says("an array that is fill_value everywhere", "none: the result is constant")

eye: Op = row(
    "eye",
    lambda *, n, m=None, k=0, dtype=None: np.eye(n, m, k, _dtype(dtype)),
    None,
    result_shape=lambda n, m=None, k=0: (n, n if m is None else m),
).says(
    "a matrix of n rows and m columns (n unless given), 1 on the k-th diagonal (above "
    "the main one for k > 0) and 0 elsewhere",
    "none: the result is constant",
)


def _like(name: str, function: Any, formula: str) -> Op:
    return row(name, function, None).says(formula, "none: the result is constant")


zeros_like = _like("zeros_like", lambda x: np.zeros_like(x), "zeros in the shape and dtype of x")
ones_like = _like("ones_like", lambda x: np.ones_like(x), "ones in the shape and dtype of x")


def _full_like(x: Any, *, fill_value: float) -> Any:
    """Raises ValueError if an integer array cannot hold the value; NumPy would return an arbitrary
    number."""
    integers = np.asarray(x).dtype.kind == "i"
    if integers and not -(2.0**63) <= fill_value < 2.0**63:
        raise ValueError(f"full_like: x holds whole numbers of 64 bits, and {fill_value:g} is none")
    return np.full_like(x, fill_value)


full_like = _like("full_like", _full_like, "fill_value in the shape and dtype of x")

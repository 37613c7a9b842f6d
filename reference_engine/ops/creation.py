"""Arrays that are made of nothing but their shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import as_dtype
from reference_engine.op import REQUIRED, Op, register

FAMILY = "creation"


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype is None else as_dtype(dtype)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _arange_value(start: int, stop: int | None = None, step: int = 1, dtype: Any = None) -> Any:
    """As range: from 0 where only one number is given."""
    whole = range(start) if stop is None else range(start, stop, step)
    return np.arange(
        whole.start, whole.stop, whole.step, dtype=None if dtype is None else as_dtype(dtype)
    )


arange: Op = register(
    Op(
        "arange",
        _arange_value,
        None,
        family=FAMILY,
        arrays=(),
        keywords={"start": REQUIRED, "stop": None, "step": 1, "dtype": None},
        formula="the whole numbers start, start + step, ... up to stop, which is left out; "
        "arange(n) starts at 0",
        derivative="none: the result is constant",
        domain="whole numbers, step not 0",
        source="Array API",
        rounding="none",
        result_shape=lambda start, stop=None, step=1: (
            len(range(start) if stop is None else range(start, stop, step)),
        ),
    )
)


def _filled(name: str, function: Any, formula: str) -> Op:
    return register(
        Op(
            name,
            lambda shape, dtype=None: function(_shape(shape), _dtype(dtype)),
            None,
            family=FAMILY,
            arrays=(),
            keywords={"shape": REQUIRED, "dtype": None},
            formula=formula,
            derivative="none: the result is constant",
            source="Array API",
            rounding="none",
            result_shape=_shape,
        )
    )


zeros = _filled("zeros", np.zeros, "an array of zeros")
ones = _filled("ones", np.ones, "an array of ones")

full: Op = register(
    Op(
        "full",
        lambda shape, fill_value, dtype=None: np.full(_shape(shape), fill_value, _dtype(dtype)),
        None,
        family=FAMILY,
        arrays=(),
        keywords={"shape": REQUIRED, "fill_value": REQUIRED, "dtype": None},
        formula="an array that is fill_value everywhere",
        derivative="none: the result is constant",
        source="Array API",
        rounding="none",
        result_shape=lambda shape, fill_value: _shape(shape),
    )
)

eye: Op = register(
    Op(
        "eye",
        lambda n, m=None, k=0, dtype=None: np.eye(n, m, k, _dtype(dtype)),
        None,
        family=FAMILY,
        arrays=(),
        keywords={"n": REQUIRED, "m": None, "k": 0, "dtype": None},
        formula="a matrix of n rows and m columns (n unless given), 1 on the k-th diagonal (above "
        "the main one for k > 0) and 0 elsewhere",
        derivative="none: the result is constant",
        source="Array API",
        rounding="none",
        result_shape=lambda n, m=None, k=0: (n, n if m is None else m),
    )
)


def _like(name: str, function: Any, formula: str, **keywords: Any) -> Op:
    return register(
        Op(
            name,
            function,
            None,
            family=FAMILY,
            keywords=keywords,
            formula=formula,
            derivative="none: the result is constant",
            source="Array API",
            rounding="none",
        )
    )


zeros_like = _like("zeros_like", np.zeros_like, "zeros in the shape and dtype of x")
ones_like = _like("ones_like", np.ones_like, "ones in the shape and dtype of x")


def _full_like(x: Any, fill_value: float) -> Any:
    """Raises ValueError where whole numbers are to hold what they cannot: NumPy would give any."""
    integers = np.asarray(x).dtype.kind == "i"
    if integers and not -(2.0**63) <= fill_value < 2.0**63:
        raise ValueError(f"full_like: x holds whole numbers of 64 bits, and {fill_value:g} is none")
    return np.full_like(x, fill_value)


full_like = _like(
    "full_like",
    _full_like,
    "fill_value in the shape and dtype of x",
    fill_value=REQUIRED,
)

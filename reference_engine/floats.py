"""NumPy's floating-point dtypes, with bfloat16 from ml_dtypes.

Two things NumPy does not do by itself are done here for the values of operations: a Python number
is weakly typed beside a bfloat16 array too, and operations of many roundings (sums, products of
matrices, softmax) are computed in float32 for the two narrow formats and rounded once, as hardware
and frameworks do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ArrayFunction = Callable[..., Any]


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype of that name; "bfloat16" imports ml_dtypes."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        import ml_dtypes  # only who asks for bfloat16 pays for it

        dtype = ml_dtypes.bfloat16
    return np.dtype(dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a gradient can be taken with respect to numbers of this dtype."""
    # ml_dtypes gives bfloat16 the kind V; a dtype's name is dear to ask for
    if dtype.kind == "V":
        return dtype.name == "bfloat16"
    return dtype.kind == "f" and dtype.itemsize in (2, 4, 8)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """float16 or bfloat16."""
    return dtype.itemsize == 2 and (dtype.kind == "f" or dtype.name == "bfloat16")


def weak_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """The two operands, a Python number in the dtype of a bfloat16 array beside it.

    NumPy does so for its own dtypes; for bfloat16 it would widen the result to float32 or float64.
    """
    if type(y) in (float, int):
        return x, (np.asarray(y, x.dtype) if _is_bfloat16(x) else y)
    if type(x) in (float, int):
        return (np.asarray(x, y.dtype) if _is_bfloat16(y) else x), y
    # a Constant is a subclass of float, and a Python number here; so is NumPy's float64, and is not
    if isinstance(y, float) and not isinstance(y, np.generic):
        return weak_pair(x, float(y))
    if isinstance(x, float) and not isinstance(x, np.generic):
        return weak_pair(float(x), y)
    return x, y


def _is_bfloat16(x: Any) -> bool:
    # NumPy's own dtypes of kind V hold no numbers; the kind tells at less cost than the name
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "V"


def weakly_typed(function: ArrayFunction) -> ArrayFunction:
    """A function of two operands, after `weak_pair`."""

    @wraps(function)
    def value(x: Any, y: Any) -> Any:
        if type(x) is np.ndarray and type(y) is np.ndarray:
            return function(x, y)
        return function(*weak_pair(x, y))

    return value


def in_float32(function: ArrayFunction) -> ArrayFunction:
    """Compute a function of one array in float32 where the array is narrow, and round once."""

    @wraps(function)
    def value(x: Any, *rest: Any, **keywords: Any) -> Any:
        if type(x) is not np.ndarray:
            x = np.asarray(x)
        if x.dtype.itemsize == 2 and is_narrow(x.dtype):
            wide = function(x.astype(np.float32), *rest, **keywords)
            return np.asarray(wide).astype(x.dtype)
        return function(x, *rest, **keywords)

    return value


def all_in_float32(function: ArrayFunction) -> ArrayFunction:
    """Compute a function of several arrays in one dtype, narrow ones in float32, and round once.

    A Python number takes the dtype of the arrays beside it.
    """

    @wraps(function)
    def value(*xs: Any, **keywords: Any) -> Any:
        typed = [np.asarray(x).dtype for x in xs if type(x) not in (float, int)]
        if not typed:
            return function(*xs, **keywords)
        dtype = np.result_type(*typed)
        wide = np.dtype(np.float32) if is_narrow(dtype) else dtype
        result = function(*(np.asarray(x, wide) for x in xs), **keywords)
        return np.asarray(result).astype(dtype) if is_narrow(dtype) else result

    return value


def pair_in_float32(function: ArrayFunction) -> ArrayFunction:
    """A function of two operands in float32, after `weak_pair`."""

    @wraps(function)
    def value(x: Any, y: Any) -> Any:
        x, y = weak_pair(x, y)
        kind = np.result_type(x, y)
        if is_narrow(kind):
            wide = function(np.asarray(x, np.float32), np.asarray(y, np.float32))
            return np.asarray(wide).astype(kind)
        return function(x, y)

    return value

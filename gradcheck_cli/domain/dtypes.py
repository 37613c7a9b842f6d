"""Floating-point formats as numbers. Needs NumPy, but no framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import ERROR_BITS

P = ParamSpec("P")
T = TypeVar("T")
Array = npt.NDArray[Any]

Values = Mapping[str, Array]
"""Arrays by name."""

ValuesOrNone = Mapping[str, Array | None]
"""Arrays by name; None for a name without one."""

ALIGNMENT = 64
"""Alignment in bytes with which XLA uses an array without a copy."""

_EXPONENT = np.int64(0x7FF0000000000000)  # of the bits of a float64


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format.

    `bits` is the precision p (significand with the hidden bit), `min_exponent` the exponent of the
    smallest normal number, `max_exponent` that of the largest number.
    """

    name: str
    bits: int
    min_exponent: int
    max_exponent: int

    @property
    def unit_roundoff(self) -> float:
        """u = 2^-p, half the spacing of numbers at 1."""
        return 2.0**-self.bits

    @property
    def half(self) -> float:
        """The relative error that loses half of the digits."""
        return float(2.0 ** -(ERROR_BITS * self.bits))

    def lost(self, part: float) -> float:
        """The error in ulps that loses this part of the digits."""
        return float(2.0 ** (part * self.bits))

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.min_exponent

    @property
    def smallest_subnormal(self) -> float:
        return 2.0 ** (self.min_exponent - self.bits + 1)

    @property
    def largest(self) -> float:
        return (2.0 - 2.0 ** (1 - self.bits)) * 2.0**self.max_exponent

    def ulp(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The spacing of this format's numbers around each value; the smallest subnormal near 0."""
        wide = np.asarray(values, dtype=np.float64)
        # the exponent bits alone are the power of two below, 0 for subnormals, inf for nan
        power = np.asarray(wide.view(np.int64) & _EXPONENT).view(np.float64)
        np.maximum(power, 2.0**self.min_exponent, out=power)
        np.minimum(power, 2.0**self.max_exponent, out=power)
        power *= 2.0 ** (1 - self.bits)
        return power

    def numpy_dtype(self) -> np.dtype[Any]:
        if self.name == "bfloat16":
            import ml_dtypes  # slow to import, so only for bfloat16

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.name)

    def round(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The values rounded to this format, as float64 (which holds all of them exactly). Returns
        the same array if nothing changes, because a copy may be as large as a layer."""
        wide = np.asarray(values, dtype=np.float64)
        if self.name == "float64":
            return wide
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            narrow = wide.astype(self.numpy_dtype())
        return wide if np.array_equal(narrow, wide) else narrow.astype(np.float64)

    def shortest(self, value: float) -> float:
        """The number with the fewest decimal digits that this format rounds to `value`, as 0.1 for
        0.10000000149011612 in float32; `value` itself if the format does not represent it."""
        digits = range(1, math.ceil(self.bits * math.log10(2)) + 2)
        short = (float(f"{value:.{count}g}") for count in digits)
        return next((one for one in short if self.round(one) == value), value)


FORMATS: dict[str, FloatFormat] = {
    "float16": FloatFormat("float16", 11, -14, 15),
    "bfloat16": FloatFormat("bfloat16", 8, -126, 127),
    "float32": FloatFormat("float32", 24, -126, 127),
    "float64": FloatFormat("float64", 53, -1022, 1023),
}


COMPLEX = {"complex64": "float32", "complex128": "float64"}
"""Complex dtypes, with the dtype of their real and imaginary parts."""


def parts_of(dtype: str) -> str:
    """The dtype of the parts of a complex one; any other unchanged."""
    return COMPLEX.get(dtype, dtype)


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array whose address is a multiple of ALIGNMENT bytes."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def as_pairs(array: Array) -> Array:
    """The real and the imaginary parts of complex numbers, (..., 2), in float64."""
    return np.stack([array.real, array.imag], axis=-1).astype(np.float64)


def as_numbers(array: Array) -> Array:
    """Floats in float64, exactly; complex numbers as pairs along a last axis; integers and booleans
    unchanged."""
    if array.dtype.kind == "c":
        return as_pairs(array)
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def identical(one: Array, other: Array) -> bool:
    """Whether both are the same to the last bit."""
    same = one.dtype == other.dtype and one.shape == other.shape
    return one is other or (same and one.tobytes() == other.tobytes())


def is_same_view(one: Array, other: Array) -> bool:
    """Whether both show the same memory in the same way."""
    kinds = (one.dtype, one.shape, one.strides) == (other.dtype, other.shape, other.strides)
    return kinds and one.__array_interface__["data"][0] == other.__array_interface__["data"][0]


def are_equal(one: Any, other: Any) -> bool:
    """Whether both are None, or arrays of equal numbers, where nan equals nan."""
    if one is None or other is None:
        return one is other
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)


def joined(pairs: Array) -> Array:
    """Complex numbers from their real and imaginary parts along the last axis; complex64 from
    float32."""
    dtype = np.result_type(pairs.dtype, np.complex64)
    return np.ascontiguousarray(pairs).view(dtype)[..., 0]


def quiet(function: Callable[P, T]) -> Callable[P, T]:
    """The function without NumPy's warnings and errors about nan, infinity and underflow, in all
    that it calls: such numbers are evidence. (A generator runs in its caller and would not change.)
    """

    @wraps(function)
    def found(*args: P.args, **named: P.kwargs) -> T:
        with np.errstate(all="ignore"):
            return function(*args, **named)

    return found


def wider(dtype: str) -> FloatFormat:
    """The precision in which a suspect is examined again."""
    return FORMATS["float32" if dtype == "float64" else "float64"]

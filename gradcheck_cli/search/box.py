"""The domain of a search as a box of ordinals: numbers of the dtype, counted from 0.

The ordinal of a number counts the numbers of its format from 0 up to it, negative below 0; -0.0 and
0.0 share one. A point is a row of D ordinals, one for each searched element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Input

Ordinals = npt.NDArray[np.int64]

_BITS: dict[str, Any] = {
    "float16": np.int16,
    "bfloat16": np.int16,
    "float32": np.int32,
    "float64": np.int64,
}


def to_ordinals(values: npt.ArrayLike, fmt: FloatFormat) -> Ordinals:
    """The ordinals of numbers, given in float64 and rounded to the format first."""
    with np.errstate(all="ignore"):
        narrow = np.asarray(values, np.float64).astype(fmt.numpy_dtype())
    integer = _BITS[fmt.name]
    bits = narrow.view(integer).astype(np.int64)
    return np.where(bits < 0, -(bits & np.int64(np.iinfo(integer).max)), bits)


def from_ordinals(ordinals: npt.ArrayLike, fmt: FloatFormat) -> npt.NDArray[np.float64]:
    """The numbers with these ordinals, in float64."""
    counted = np.asarray(ordinals, np.int64)
    integer = _BITS[fmt.name]
    size = np.abs(counted).astype(integer).view(fmt.numpy_dtype()).astype(np.float64)
    return np.where(counted < 0, -size, size)


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of a search: every element of the inputs in `shapes`, D in all, one after the
    other, from ordinal `low` to ordinal `high` (each of shape (D,)). `still` has the values of the
    other inputs, `start` is the point of the file."""

    dtype: str
    shapes: Mapping[str, tuple[int, ...]]
    low: Ordinals
    high: Ordinals
    still: Mapping[str, Array]
    start: Ordinals

    @property
    def format(self) -> FloatFormat:
        return FORMATS[self.dtype]

    @property
    def size(self) -> int:
        """D, the number of searched elements."""
        return len(self.low)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each element: "x", or "x[0,1]" in an array."""
        return tuple(
            element_name(name, index)
            for name, shape in self.shapes.items()
            for index in np.ndindex(shape)
        )

    def contains(self, points: Ordinals) -> npt.NDArray[np.bool_]:
        """Mark the points (N, D) that lie inside."""
        return np.asarray(np.all((points >= self.low) & (points <= self.high), axis=1))

    def inside(self, points: Ordinals) -> Ordinals:
        """The points, with each element moved to the nearest number of the domain."""
        return np.clip(points, self.low, self.high)

    def numbers(self, points: Ordinals) -> npt.NDArray[np.float64]:
        """The numbers of points (N, D)."""
        return from_ordinals(points, self.format)

    def arrays(self, numbers: npt.NDArray[np.float64]) -> dict[str, Array]:
        """Numbers (N, D) as one array (N, *shape) for each searched input."""
        found: dict[str, Array] = {}
        end = 0
        for name, shape in self.shapes.items():
            begin, end = end, end + math.prod(shape)
            found[name] = numbers[:, begin:end].reshape(len(numbers), *shape)
        return found

    def point(self, values: Mapping[str, Array]) -> Ordinals:
        """The point (D,) at which the searched inputs have these values."""
        flat = [np.ravel(values[name]) for name in self.shapes]
        return to_ordinals(np.concatenate(flat), self.format)

    def values(self, point: Ordinals) -> dict[str, Array]:
        """All inputs of the program at one point (D,)."""
        found = self.arrays(self.numbers(point[None]))
        return {**self.still, **{name: array[0] for name, array in found.items()}}


def element_name(name: str, index: tuple[int, ...]) -> str:
    """The name of an element of an input in a report: "x", "x[0,1]"."""
    return f"{name}[{','.join(map(str, index))}]" if index else name


def domain_of(inputs: Mapping[str, Input], dtype: str) -> Domain | None:
    """The domain of a spec's inputs; None if no input has one. Bounds are the outermost numbers of
    the dtype in the interval. Raises ValueError for an interval without a number of the dtype."""
    fmt = FORMATS[dtype]
    shapes: dict[str, tuple[int, ...]] = {}
    lows, highs, starts = [], [], []
    still: dict[str, Any] = {}
    for name, entry in inputs.items():
        value = np.asarray(entry.value)
        if value.dtype.kind != "f" or not (np.isfinite(entry.low) or np.isfinite(entry.high)):
            still[name] = fmt.round(value) if value.dtype.kind == "f" else value
            continue
        low, high = _bounds(entry, fmt)
        if low > high:
            raise ValueError(f"the domain of `{name}` holds no number of {dtype}")
        shapes[name] = value.shape
        lows += [low] * value.size
        highs += [high] * value.size
        starts += to_ordinals(value, fmt).ravel().tolist()
    if not shapes:
        return None
    low_array, high_array = np.array(lows, np.int64), np.array(highs, np.int64)
    start = np.clip(np.array(starts, np.int64), low_array, high_array)
    return Domain(dtype, shapes, low_array, high_array, still, start)


def _bounds(entry: Input, fmt: FloatFormat) -> tuple[int, int]:
    """The ordinals of the least and the largest finite number of the format in the interval."""
    most = int(to_ordinals(fmt.largest, fmt))
    low = max(int(to_ordinals(entry.low, fmt)), -most)
    high = min(int(to_ordinals(entry.high, fmt)), most)
    low += int(from_ordinals(low, fmt) < entry.low)
    high -= int(from_ordinals(high, fmt) > entry.high)
    return low, high

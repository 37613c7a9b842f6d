"""Arrays that are views of the same memory: what is written to one of them stands in the others."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array


def same_numbers(one: Array, other: Array) -> bool:
    """Whether both are the same to the last bit."""
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def shared_places(plain: Array, memory: Array) -> tuple[Array, Array]:
    """Places in the first array, flattened, and those in the second that are the same memory."""
    mine, theirs = _addresses(plain), _addresses(memory)
    _, places, others = np.intersect1d(mine, theirs, return_indices=True)
    return places, others


def _addresses(array: Array) -> Array:
    found = np.full(array.shape, array.ctypes.data, np.int64)
    for axis, stride in enumerate(array.strides):
        steps = np.arange(array.shape[axis]) * stride
        found += steps.reshape(-1, *(1,) * (array.ndim - axis - 1))
    return found.reshape(-1)


def overwritten(array: Array, places: Array, others: Array, part: Array) -> Array:
    """The array with numbers of `part`, flattened, at the places `others`, at its own `places`."""
    made = array.copy()
    made.reshape(-1)[places] = part.reshape(-1)[others]
    return made

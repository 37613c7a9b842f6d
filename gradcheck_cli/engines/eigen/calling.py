"""Compiled programs, loaded and called."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.eigen.writing import GeneratedCode
from gradcheck_cli.engines.errors import EngineFault


def longs(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]


def pointer(array: Array | None) -> ctypes.c_void_p:
    """To the first entry of a contiguous array, which must outlive the call; null for None."""
    assert array is None or array.flags.c_contiguous
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


class Library:
    """A compiled program, loaded."""

    def __init__(self, library: ctypes.CDLL, written: GeneratedCode, dtype: str, size: int) -> None:
        self._call = getattr(library, f"gradcheck_{dtype}")
        self._call.restype = ctypes.c_int
        self._written = written
        self._dtype = dtype
        self._size = size

    def run(
        self, values: Mapping[str, Array], name: str, columns: Array | None
    ) -> tuple[Array, Array]:
        """The output, and its derivatives (directions, output), along `columns` of the input, or
        along its entries. Raises EngineFault where it does not fit the formula."""
        written = self._written
        flat = [values[input].astype(self._dtype).ravel() for input in written.places]
        given = np.concatenate(flat)
        size = values[name].size
        rows = None if columns is None else columns.reshape(len(columns), -1).astype(self._dtype)
        count = size if rows is None else len(rows)
        output = np.empty(self._size, dtype=self._dtype)
        tangents = np.empty((count, self._size), dtype=self._dtype)
        arrays = (written.maps, written.constants, written.flags, output, tangents)
        failed = self._call(
            pointer(given),
            *longs(given.size, written.places[name], size),
            pointer(rows),
            *longs(count, self._size),
            *(pointer(array) for array in arrays),
        )
        if failed:
            raise EngineFault(
                "the compiled code returns an output of a different size from the formula"
            )
        return output, tangents

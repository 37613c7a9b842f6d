"""Arguments of compiled functions."""

from __future__ import annotations

import ctypes

from gradcheck_cli.domain.dtypes import Array


def longs(*numbers: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(number) for number in numbers]


def pointer(array: Array | None) -> ctypes.c_void_p:
    """To the first entry of a contiguous array, which must outlive the call; null for None."""
    assert array is None or array.flags.c_contiguous
    return ctypes.c_void_p(None if array is None else array.ctypes.data)

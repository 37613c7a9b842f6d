"""Return memory that is free to the system between the runs of a large layer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def return_free_memory() -> None:
    """Return free pages to the system. The C library keeps freed arrays of up to 32 MB for later
    ones, but no array of another size or dtype fits into their places, so without this a process
    grows by several arrays of the layer."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of glibc; None for another C library."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    return found

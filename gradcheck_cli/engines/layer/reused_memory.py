"""Memory of large arrays that is used again, and not given back to the system between them.

The C library of Linux asks the system for each array above 32 MB and returns it as soon as it is
free, so that the next one has to be filled with zeros first. Of the check of a layer with 1e7
parameters that was two fifths of the processor time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 2**21  # entries, of which a float64 array has 16 MB
# Of <malloc.h>: how much is free at the end when it is given back, from which size on arrays lie by
# themselves, and how many of them do.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
# The C library raises the first two to this as large arrays are freed, until somebody sets one.
USUAL = {_TRIM_THRESHOLD: 64 * 2**20, _MMAP_THRESHOLD: 32 * 2**20, _MMAP_MAX: 65536}
REUSED = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0}


@contextmanager
def reused_memory(entries: int) -> Iterator[None]:
    """Meanwhile arrays with so many entries are made in memory that was used before."""
    if entries < MANY or sys.platform != "linux":
        yield
        return
    import ctypes

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # another C library
        yield
        return
    for option, value in REUSED.items():
        library.mallopt(option, value)
    try:
        yield
    finally:
        for option, value in USUAL.items():
            library.mallopt(option, value)
        library.malloc_trim(0)

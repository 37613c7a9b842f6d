"""NumPy's BLAS on one thread.

The products of enclosures are many and small, and at each of them the threads of OpenBLAS spin
until the others are done: on a busy machine, 25 times the work. Workers are told so by their
environment; in a process in which NumPy is loaded already, only its library can be.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def one_thread() -> Iterator[None]:
    """The block, or a function that this decorates, with one thread of BLAS for the whole process,
    as far as NumPy brings its own OpenBLAS; then with as many as before."""
    count, set_count = _of_library()
    before = count()
    if before > 1:
        set_count(1)
    try:
        yield
    finally:
        if before > 1:
            set_count(before)


@cache
def _of_library() -> tuple[Callable[[], int], Callable[[int], Any]]:
    """What gives the number of threads, and what sets it. (NumPy's wheels have the library beside
    the package, or in it on macOS, with names of its own.)"""
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for file in chain(*(folder.glob("*openblas*") for folder in folders)):
        library = ctypes.CDLL(str(file))
        for end in ("64_", ""):
            names = (f"scipy_openblas_{what}_num_threads{end}" for what in ("get", "set"))
            found = [getattr(library, name, None) for name in names]
            if all(found):
                return found[0], found[1]  # type: ignore[return-value]
    return lambda: 1, lambda count: None

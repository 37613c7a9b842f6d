"""Run NumPy's BLAS on one thread.

Enclosures need many small matrix products, and in each of them the threads of OpenBLAS spin until
the others are done: 25 times the work on a busy machine. A worker is limited by its environment; in
a process that has loaded NumPy already, only the library itself can be limited.
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
    """Run a block or a decorated function with one BLAS thread for the whole process, if NumPy
    brings its own OpenBLAS. The number of threads is restored afterwards."""
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
    """Return the functions that get and set the number of threads. (NumPy's wheels have the library
    beside the package, or on macOS in it, under names of their own.)"""
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for file in chain(*(folder.glob("*openblas*") for folder in folders)):
        library = ctypes.CDLL(str(file))
        for end in ("64_", ""):
            names = (f"scipy_openblas_{what}_num_threads{end}" for what in ("get", "set"))
            functions = [getattr(library, name, None) for name in names]
            if all(functions):
                return functions[0], functions[1]  # type: ignore[return-value]
    return lambda: 1, lambda count: None

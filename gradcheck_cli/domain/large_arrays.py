"""Work on a large array part by part: a part fits a processor's cache, and a float64 copy of it
takes no memory to speak of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradcheck_cli.domain.dtypes import Array

PART = 2**15  # entries that are worked on at once


def parts(size: int) -> Iterator[slice]:
    """Yield slices of at most PART entries."""
    for start in range(0, size, PART):
        yield slice(start, min(start + PART, size))


def any_nonzero(numbers: Array) -> bool:
    """Whether any entry (n,) is not zero. The first part usually has one."""
    return any(np.any(numbers[inside]) for inside in parts(numbers.size))


def dot(one: Array, other: Array) -> float:
    """The dot product by NumPy alone: on a busy machine, the threads of BLAS would wait for each
    other over so little work."""
    return float(np.einsum("i,i", one, other))

"""Places in flattened arrays, and the indices that people use for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def index_of(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of an entry of an array of this shape; () of a number."""
    return tuple(int(i) for i in np.unravel_index(flat, tuple(shape)))


def flat_of(index: Sequence[int], shape: Sequence[int]) -> int:
    """Its place among the flattened entries, row after row."""
    return int(np.ravel_multi_index(tuple(index), tuple(shape))) if shape else 0

"""Places in flattened arrays, and the indices that people use for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def index_of(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of the entry at a flat place, for an array of this shape; () for a number."""
    return tuple(int(i) for i in np.unravel_index(flat, tuple(shape)))


def flat_of(index: Sequence[int], shape: Sequence[int]) -> int:
    """The flat place of the entry at an index, in row-major order."""
    return int(np.ravel_multi_index(tuple(index), tuple(shape))) if shape else 0

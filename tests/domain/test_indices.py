"""Places in flattened arrays and their indices are each other's inverse."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.indices import flat_of, index_of


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 4)])
def test_the_entry_at_an_index_is_the_one_at_its_place(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for flat in range(array.size):
        index = index_of(flat, shape)
        assert len(index) == len(shape)
        assert array[index] == flat
        assert flat_of(index, shape) == flat

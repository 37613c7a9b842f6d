"""Work on large arrays part by part."""

import numpy as np
import pytest

from gradcheck_cli.domain.large_arrays import PART, any_nonzero


@pytest.mark.parametrize("place", [0, PART, 2 * PART + 2])
def test_one_entry_in_any_part_shows(place: int) -> None:
    numbers = np.zeros(2 * PART + 3, np.float32)
    assert not any_nonzero(numbers)
    numbers[place] = np.nan
    assert any_nonzero(numbers)

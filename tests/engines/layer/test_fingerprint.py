"""Whether an array was written to, by what takes less memory than a copy."""

import numpy as np
import pytest

from gradcheck_cli.engines.layer.fingerprint import LARGE, fingerprint

NUMBERS = np.random.default_rng(0).standard_normal(LARGE // 4 + 3).astype(np.float32)


def test_it_takes_little_memory() -> None:
    assert len(fingerprint(NUMBERS)) < NUMBERS.nbytes / 50
    assert fingerprint(NUMBERS[:100]) == NUMBERS[:100].tobytes()


@pytest.mark.parametrize("place", [0, 1, LARGE // 8, NUMBERS.size - 1])
def test_the_last_bit_of_any_number_shows(place: int) -> None:
    other = NUMBERS.copy()
    other[place] = np.nextafter(other[place], np.float32(np.inf))
    assert fingerprint(other) != fingerprint(NUMBERS)


def test_numbers_that_change_places_show() -> None:
    other = NUMBERS.copy()
    other[:64] = other[:64][::-1]
    assert fingerprint(other) != fingerprint(NUMBERS)


def test_equal_arrays_have_the_same() -> None:
    assert fingerprint(NUMBERS.copy()) == fingerprint(NUMBERS)

"""Sums over blocks: linear, and with every entry in them."""

import numpy as np
import pytest

from gradcheck_cli.truth.numerics.block_sums import BLOCK, FEW, block_sums, count, usual_size

SIZE = FEW + 3 * BLOCK + 5
NUMBERS = np.random.default_rng(0).standard_normal(SIZE)


def test_few_numbers_are_their_own_sums() -> None:
    assert np.array_equal(block_sums(NUMBERS[:FEW]), NUMBERS[:FEW])
    assert count(FEW) == FEW


def test_one_entry_that_differs_shows_as_a_whole() -> None:
    sums = block_sums(NUMBERS)
    assert sums.size == count(SIZE) < SIZE / 50
    for place in (0, FEW - 1, FEW, SIZE - 1):
        other = NUMBERS.copy()
        other[place] += 0.25
        apart = np.abs(block_sums(other) - sums)
        assert np.max(apart) >= 0.25 * (1 - 1e-12)
        assert np.count_nonzero(apart) == 1


def test_entries_that_change_places_show() -> None:
    other = NUMBERS.copy()
    other[:BLOCK] = other[:BLOCK][::-1]
    assert not np.allclose(block_sums(other), block_sums(NUMBERS))


def test_they_are_linear_and_in_float64() -> None:
    narrow = NUMBERS.astype(np.float32)
    assert np.array_equal(block_sums(narrow), block_sums(narrow.astype(np.float64)))
    both = block_sums(NUMBERS - 1024 * NUMBERS[::-1])
    assert np.allclose(both, block_sums(NUMBERS) - 1024 * block_sums(NUMBERS[::-1]), atol=1e-10)


@pytest.mark.parametrize("size", [100, SIZE])
def test_the_usual_size_of_entries_is_known_by_their_sums(size: int) -> None:
    sums = block_sums(NUMBERS[:size])
    sums[0] = np.nan
    assert usual_size(sums, size) == pytest.approx(np.sqrt(np.mean(NUMBERS[:size] ** 2)), rel=0.2)

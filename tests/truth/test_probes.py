"""Random directions, and the probability with which they show an error."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.truth.probes import PART, Draws, is_gaussian, size_of, smallest


def leaf(values: np.ndarray) -> Leaf:
    return Leaf("x", "input", values, True)


def test_directions_are_as_large_as_the_leaf_or_each_entry() -> None:
    values = np.concatenate([[0.0, 1e-3], np.full(PART, 5.0)])
    draws = Draws(0, FORMATS["float64"])
    signs = draws.direction(1, leaf(values), 0)
    assert set(np.abs(signs)) == {4.0}
    draws.by_entry = True
    assert list(np.abs(draws.direction(1, leaf(values), 0)[:3])) == [4.0, 1e-3, 5.0]
    assert draws.least_scale(leaf(values)) == 1e-3


def test_the_same_is_drawn_again_and_is_nobodys() -> None:
    values = np.ones(7)
    draws = Draws(3, FORMATS["float32"])
    first = draws.direction(0, leaf(values), 0)
    again = first.copy()
    first[:] = 0
    assert np.array_equal(draws.direction(0, leaf(values), 0), again)
    assert np.array_equal(again, again.astype(np.float32))
    assert not np.array_equal(draws.direction(2, leaf(values), 0), again)


@pytest.mark.parametrize("cotangents", [1, 4])
def test_the_promise_is_kept(cotangents: int) -> None:
    """Of errors of a single product of two vectors, which hide best, as many are missed as was
    said."""
    power, directions = 0.9, 2
    norm = smallest(directions, cotangents, power)
    rng = np.random.default_rng(0)
    draws = 20_000
    count = {name: sum(map(is_gaussian, range(n))) for name, n in (("a", cotangents), ("b", 2))}
    a = np.abs(rng.standard_normal((draws, count["a"]))) if cotangents > 1 else np.ones((draws, 1))
    b = np.abs(rng.standard_normal((draws, count["b"])))
    missed = np.mean(norm * a.max(axis=1) * b.max(axis=1) < 1)
    # three standard deviations of the mean of 20 000 draws, and the grid of the integral
    assert missed == pytest.approx(1 - power, abs=0.01)
    assert smallest(4, cotangents, power) < norm < smallest(directions, cotangents, 0.99)


def test_sizes_are_powers_of_two_and_survive_extremes() -> None:
    assert size_of(np.array([3.0, -5.0])) == 4.0
    assert size_of(np.zeros(3)) == 1.0
    assert np.isfinite(size_of(np.array([1e300, 1.0])))

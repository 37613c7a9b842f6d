"""Random directions, and the probability with which they show an error."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.large_arrays import PART
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.engines.layer.subject import Output
from gradcheck_cli.truth.numerics.probes import COTANGENTS, LEAST, Draws, smallest, smallest_single


def leaf(values: np.ndarray) -> Leaf:
    return Leaf("x", "input", values, True)


def test_directions_are_as_large_as_the_leaf_or_each_entry() -> None:
    values = np.concatenate([[0.0, 1e-3], np.full(PART, 5.0)])
    draws = Draws(0, FORMATS["float64"])
    drawn = draws.direction(1, leaf(values), 0) / 4.0  # the power of two below 5
    assert LEAST <= np.min(np.abs(drawn)) < np.max(np.abs(drawn)) <= 3 * LEAST
    draws.by_entry = True
    by_entry = draws.direction(1, leaf(values), 0)[:3]
    np.testing.assert_allclose(by_entry, drawn[:3] * [4.0, 1e-3, 5.0], rtol=1e-15)
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


@pytest.mark.parametrize("count", [1, COTANGENTS])
def test_a_single_number_has_one_cotangent(count: int) -> None:
    draws = Draws(0, FORMATS["float64"])
    outputs = (Output("y", (3,), "float64", 0),)
    assert draws.cotangents(outputs, np.ones(3), count).shape == (count, 3)
    assert draws.cotangents((), np.ones(1), count).shape == (1, 1)


SMALL = 6  # entries of a side: few numbers come closest to cancelling


def errors(rng: np.random.Generator, cotangents: int) -> list[np.ndarray]:
    """Errors of norm 1 in various patterns: of one entry, of two that cancel, of a product of two
    vectors, of every entry."""
    rows = SMALL if cotangents else 1
    one, two = np.zeros((2, rows, SMALL))
    one[0, 0], two[0, :2] = 1.0, [1.0, -1.0]
    found = [one, two, np.ones((rows, SMALL)), rng.standard_normal((rows, SMALL))]
    return [error / np.linalg.norm(error) for error in found]


@pytest.mark.parametrize("cotangents", [0, 1, 4])
@pytest.mark.parametrize("directions", [1, 2])
def test_the_promise_is_kept(cotangents: int, directions: int) -> None:
    """No pattern of errors is missed more often than was said, and a single entry never."""
    power, draws = 0.9, 4000
    norm = smallest(directions, cotangents, power)
    rng = np.random.default_rng(0)

    def drawn(count: int, size: int) -> np.ndarray:
        numbers = Draws(int(rng.integers(2**31)), FORMATS["float64"])
        made = numbers.direction(0, leaf(np.ones(draws * count * size)), 0)
        return made.reshape(draws, count, size)

    u = drawn(directions, SMALL)
    v = drawn(cotangents, SMALL) if cotangents else np.ones((draws, 1, 1))
    # three standard deviations of a mean of so many draws
    allowed = 1 - power + 3 * np.sqrt(power * (1 - power) / draws)
    for error in errors(rng, cotangents):
        shows = np.max(np.abs(v @ error @ u.transpose(0, 2, 1)), axis=(1, 2))
        assert np.mean(norm * shows < 1) <= allowed
    limits = rng.random((max(cotangents, 1), directions)) + 0.1
    single = smallest_single(limits, cotangents, power) * np.abs(v[:, :, :1] @ u[:, None, :, 0])
    assert np.mean(np.all(single < limits, axis=(1, 2))) <= allowed


def test_more_directions_and_less_power_promise_more() -> None:
    for cotangents in (0, 1, 4):
        usual, bars = smallest(1, cotangents, 0.99), np.ones((max(cotangents, 1), 2))
        assert smallest(2, cotangents, 0.99) < usual < smallest(1, cotangents, 0.999)
        assert smallest_single(bars, cotangents, 0.99) < smallest_single(bars, cotangents, 0.999)
        one = smallest_single(bars[:, :1], cotangents, 0.99)
        assert smallest_single(bars, cotangents, 0.99) <= one <= LEAST**-2

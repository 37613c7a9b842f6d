"""Sums of many outputs, some of which have kinks near the point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.truth.numerics.differences import Line
from gradcheck_cli.truth.numerics.noise import from_size
from gradcheck_cli.truth.numerics.sifting import sifted
from gradcheck_cli.truth.numerics.verify_first import FIRST_LEVEL, look

OUTPUTS = 5000
LEVEL = FIRST_LEVEL + 4


def line_of(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, by: np.ndarray) -> Line:
    zero = function(at)

    def many(steps: object) -> np.ndarray:
        return np.stack([function(at + float(h) * by) for h in np.asarray(steps)])

    return Line(many, zero, from_size(zero, 16), 1.0)


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda y: np.maximum(y, 0), lambda y: (y > 0) * 1.0),
        (np.abs, np.sign),
        (lambda y: np.clip(y, -0.5, 0.5), lambda y: (np.abs(y) < 0.5) * 1.0),
        (lambda y: np.where(y > 0, y, 0.01 * y), lambda y: np.where(y > 0, 1, 0.01)),
        (lambda y: np.tanh(np.maximum(y, 0)), lambda y: (y > 0) / np.cosh(y) ** 2),
        (lambda y: np.where(y > 0, y, np.expm1(y)), lambda y: np.where(y > 0, 1, np.exp(y))),
        (np.tanh, lambda y: 1 / np.cosh(y) ** 2),
    ],
)
def test_kinks_nearby_leave_bars_narrow(
    function: Callable[[np.ndarray], np.ndarray], derivative: Callable[[np.ndarray], np.ndarray]
) -> None:
    rng = np.random.default_rng(7)
    at, by = rng.standard_normal((2, OUTPUTS))
    rows = rng.uniform(0.5, 1.5, (2, OUTPUTS)) * rng.choice([-1.0, 1.0], (2, OUTPUTS))
    expected = rows @ (derivative(at) * by)
    sums = sifted(line_of(function, at, by), rows, LEVEL)
    assert sums is not None
    found = sums.probe(expected)
    assert found.confirmed
    assert np.all(found.estimate.error < 1e-9 * OUTPUTS**0.5)
    # an error of one entry in a million would have been seen
    assert not np.any(np.abs(found.estimate.value - 1.000001 * expected) <= found.estimate.error)


def test_a_whole_look_is_in_the_way_of_kinks() -> None:
    rng = np.random.default_rng(7)
    at, by = rng.standard_normal((2, OUTPUTS))
    line = line_of(np.abs, at, by)
    of_sum = Line(
        lambda h: line.many(h) @ np.ones((OUTPUTS, 1)),
        line.zero.sum()[None],
        np.sqrt(np.sum(line.noise**2))[None],
        1.0,
    )
    expected = np.array([np.sign(at) @ by])
    whole = look(of_sum, expected, LEVEL)
    alone = sifted(line, np.ones((1, OUTPUTS)), LEVEL)
    assert whole is not None
    assert alone is not None
    assert 1e4 * alone.error[0] < whole.estimate.error[0]


@pytest.mark.parametrize("function", [np.abs, np.sqrt, lambda y: np.round(y * 2**24)])
def test_kinks_at_the_point_and_stairs_are_not_sifted(
    function: Callable[[np.ndarray], np.ndarray],
) -> None:
    rng = np.random.default_rng(7)
    at, by = np.abs(rng.standard_normal((2, OUTPUTS)))
    at[:3] = 0
    with np.errstate(invalid="ignore"):
        found = sifted(line_of(function, at, by), np.ones((1, OUTPUTS)), LEVEL)
    assert found is None or not found.probe(np.zeros(1)).confirmed


def hidden(
    units: int, samples: int, seed: int
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Outputs of a layer with hidden ReLUs, of which each is behind many kinks; a point, a
    direction and the derivative along it."""
    rng = np.random.default_rng(seed)
    last = rng.standard_normal((units, units)) / units**0.5
    at, by = rng.standard_normal((2, samples * units))

    def function(y: np.ndarray) -> np.ndarray:
        return (np.maximum(y.reshape(samples, units), 0) @ last).reshape(-1)

    slopes = ((at > 0) * by).reshape(samples, units) @ last
    return function, at, by, slopes.reshape(-1)


@pytest.mark.parametrize("seed", range(4))
def test_outputs_behind_many_kinks_take_a_side_without(seed: int) -> None:
    function, at, by, slopes = hidden(500, 32, seed)
    line = line_of(function, at, by)
    asked: list[float] = []

    def many(steps: object) -> np.ndarray:
        asked.extend(np.abs(np.asarray(steps)))
        return line.many(steps)

    rows = np.ones((1, slopes.size))
    sums = sifted(replace(line, many=many), rows, LEVEL)
    assert sums is not None
    assert sums.probe(rows @ slopes).confirmed
    assert sums.error[0] < 1e-8 * slopes.size**0.5
    assert not sums.probe(1.0001 * rows @ slopes).confirmed
    # without a side of its own, one sample of 32 would take steps a thousand times as short
    longest = [h for h in asked if h > 0.2 * 2.0**-LEVEL / 2**6]
    assert len(longest) >= len(asked) - 8


def test_outputs_keep_their_sums_when_all_of_them_wait() -> None:
    """Outputs with a kink on one side are looked at after those with kinks on both."""
    at, slopes = np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0])

    def function(y: np.ndarray) -> np.ndarray:
        kinks = np.array([[1e-4, np.inf], [1e-4, -1e-4], [1e-4, np.inf], [1e-4, -1e-4]]).T
        return slopes * y + sum(np.where(y / k > 1, 5 * (y - k), 0.0) for k in kinks)

    rows = np.array([[1.0, 10.0, 100.0, 1000.0]])
    sums = sifted(line_of(function, at, np.ones(4)), rows, LEVEL)
    assert sums is not None
    assert sums.probe(rows @ slopes).confirmed


@pytest.mark.parametrize("beside", [1e-5, -1e-5, 3e-8, -3e-8])
@pytest.mark.parametrize("size", [1.0])
def test_a_kink_at_the_point_is_none_of_one_side(beside: float, size: float) -> None:
    """One side is smooth; the other has a kink nearby, besides the one at the point."""
    rng = np.random.default_rng(7)
    at, by = rng.standard_normal((2, OUTPUTS))

    def function(y: np.ndarray) -> np.ndarray:
        moved = (y - at) / by
        kinks = np.abs(moved) + np.abs(moved - beside)
        return np.sin(y) + np.where(np.arange(OUTPUTS) < 3, size * kinks, 0.0)

    assert sifted(line_of(function, at, by), np.ones((1, OUTPUTS)), LEVEL) is None

"""Sums of many outputs, some of which have kinks near the point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradcheck_cli.truth.numerics.noise import from_size
from gradcheck_cli.truth.numerics.sifting import sifted
from gradcheck_cli.truth.numerics.verify_first import FIRST_LEVEL, Line, look

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
    found = sifted(line_of(function, at, by), rows, expected, LEVEL)
    assert found is not None
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
    alone = sifted(line, np.ones((1, OUTPUTS)), expected, LEVEL)
    assert whole is not None
    assert alone is not None
    assert 1e4 * alone.estimate.error[0] < whole.estimate.error[0]


@pytest.mark.parametrize("function", [np.abs, np.sqrt, lambda y: np.round(y * 2**24)])
def test_kinks_at_the_point_and_stairs_are_not_sifted(
    function: Callable[[np.ndarray], np.ndarray],
) -> None:
    rng = np.random.default_rng(7)
    at, by = np.abs(rng.standard_normal((2, OUTPUTS)))
    at[:3] = 0
    with np.errstate(invalid="ignore"):
        found = sifted(line_of(function, at, by), np.ones((1, OUTPUTS)), np.zeros(1), LEVEL)
    assert found is None or not found.confirmed

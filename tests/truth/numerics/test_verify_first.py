"""A known derivative is confirmed by few evaluations, a wrong one never is."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.numerics.differences import Line
from gradcheck_cli.truth.numerics.verify_first import (
    FIRST_LEVEL,
    LEVELS,
    RELATIVE,
    Probe,
    descend,
    long_look,
)

U = 2.0**-53


class Counted:
    """A function of one step with two outputs, its evaluations counted."""

    def __init__(self, function, slope, at: float = 0.0) -> None:
        self._function = function
        self.slope = np.array([slope, -2 * slope])
        self.evaluations = 0
        zero = self._both(0.0)
        self.line = Line(self.many, zero, 16 * U * (np.abs(zero) + 1), 1.0)

    def _both(self, t: float) -> np.ndarray:
        value = self._function(t)
        return np.array([value, 1 - 2 * value])

    def many(self, steps) -> np.ndarray:
        self.evaluations += len(steps)
        return np.stack([self._both(t) for t in steps])

    def look(self, expected: np.ndarray | None = None) -> Probe:
        found = descend(self.line, self.slope if expected is None else expected, RELATIVE)
        assert found is not None
        return found


SMOOTH = [
    (lambda t: np.exp(1 + t), np.e),
    (lambda t: np.log(1 + t), 1.0),
    (lambda t: 3 * t, 3.0),
    (lambda t: np.sin(40 * t), 40.0),
]


@pytest.mark.parametrize(("function", "slope"), SMOOTH)
def test_a_right_derivative_is_confirmed(function, slope: float) -> None:
    counted = Counted(function, slope)
    found = counted.look()
    assert found.confirmed
    assert np.all(found.estimate.error <= 1e-8 * abs(slope))
    assert counted.evaluations <= 4 * LEVELS


@pytest.mark.parametrize(("function", "slope"), SMOOTH)
def test_a_wrong_derivative_is_not(function, slope: float) -> None:
    counted = Counted(function, slope)
    found = counted.look(counted.slope * (1 + np.array([0.0, 1e-7])))
    assert list(found.agrees) == [True, False]


def test_kinks_nearby_are_left_behind_and_one_at_the_point_is_told() -> None:
    near = Counted(lambda t: t + abs(t - 1e-3), 0.0)
    assert near.look().confirmed
    at = Counted(lambda t: t + abs(t), 1.0)  # the mean of both sides
    found = at.look()
    assert not found.confirmed
    assert np.all(found.sides.kind == PointKind.KINK)


def test_a_long_look_takes_shorter_steps_until_bars_are_narrow() -> None:
    bars = []
    for wanted in (2.0**-20, 2.0**-36):
        counted = Counted(lambda t: np.exp(1 + t), np.e)
        found = long_look(counted.line, counted.slope, wanted, FIRST_LEVEL)
        assert found is not None
        assert found.confirmed
        assert counted.evaluations == 2 * found.levels
        bars.append((found.levels, float(np.max(found.estimate.error / np.abs(counted.slope)))))
    (few, wide), (many, narrow) = bars
    assert few < many
    assert narrow <= 2.0**-36 < wide <= 2.0**-20


def test_a_long_look_confirms_nothing_wrong() -> None:
    counted = Counted(lambda t: np.exp(1 + t), np.e)
    found = long_look(counted.line, counted.slope * (1 + 1e-6), 2.0**-36, FIRST_LEVEL)
    assert found is not None
    assert not found.confirmed

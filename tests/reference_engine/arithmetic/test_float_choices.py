"""Comparisons of float balls that are open, and what is chosen by them."""

from __future__ import annotations

import numpy as np
import pytest

from reference_engine.arithmetic.arbs import Undecided
from reference_engine.arithmetic.float_enclosures import (
    Doubtful,
    FloatBall,
    exactly_floats,
    standing,
)
from reference_engine.tape import Node, pull_back
from reference_engine.traced import ROWS, new_level

X = FloatBall(np.array([0.5, 1.0, 2.0]), np.array([0.1, 0.1, 0.1]))


def test_a_comparison_is_open_where_balls_overlap() -> None:
    found = X < 1.05
    assert isinstance(found, Doubtful)
    assert found.doubt.tolist() == [False, True, False]
    assert found.value.tolist() == [True, True, False]
    assert (X < 5.0).tolist() == [True, True, True]
    with pytest.raises(Undecided):
        bool(found)
    with pytest.raises(Undecided):
        np.asarray(found)


def test_what_settles_a_logical_operation_leaves_no_doubt() -> None:
    doubtful = X < 1.05
    assert (doubtful & np.array([True, False, True])).tolist() == [True, False, False]
    assert isinstance(doubtful & np.array([True, True, True]), Doubtful)
    assert ROWS["logical_or"](doubtful, np.array([True, True, True])).tolist() == [True] * 3


def test_where_holds_both_branches_of_an_open_comparison() -> None:
    found = ROWS["where"](X < 1.05, exactly_floats([10.0, 10.0, 10.0]), 20.0)
    low, high = found.bounds
    assert (low[0], high[0]) == pytest.approx((10, 10))
    assert low[1] <= 10
    assert high[1] >= 20
    assert (low[2], high[2]) == pytest.approx((20, 20))


def test_equal_numbers_are_a_tie_unless_they_stand() -> None:
    zero = exactly_floats([0.0, 1.0])
    assert isinstance(zero > 0, Doubtful)
    with standing():
        assert (zero > 0).tolist() == [False, True]


def test_no_move_changes_infinity() -> None:
    scores = X + exactly_floats([0.0, -np.inf, np.inf])
    assert (scores == -np.inf).tolist() == [False, True, False]
    assert (scores >= np.inf).tolist() == [False, False, True]
    assert (scores < 100.0).tolist() == [True, True, False]
    with np.errstate(over="ignore"):
        overflowed = exactly_floats([1e300]) * X[:1] * exactly_floats([1e300])
    with np.errstate(invalid="ignore"):
        assert isinstance(overflowed == np.inf, Doubtful)  # a large number, which moves


def test_a_derivative_on_a_kink_holds_those_of_both_sides() -> None:
    for name, low, high in (("relu", 0.0, 1.0), ("abs", -1.0, 1.0), ("leaky_relu", 0.01, 1.0)):
        node = Node(new_level(), exactly_floats(np.array([0.0, 2.0])))
        y = ROWS[name](node)
        found = pull_back([(y, exactly_floats(np.ones(2)))], [node])[node.record]
        reach = found.value[0] - found.radii[0], found.value[0] + found.radii[0]
        assert reach[0] <= low <= high <= reach[1]
        assert abs(found.value[1] - 1.0) <= found.radii[1] < 1e-14


def test_a_tie_of_a_maximum_is_open_for_those_that_tie_alone() -> None:
    node = Node(new_level(), exactly_floats(np.array([[2.0, 2.0, 1.0], [3.0, 2.0, 1.0]])))
    y = ROWS["max"](node, axis=1)
    found = pull_back([(y, exactly_floats(np.ones(2)))], [node])[node.record]
    assert np.all(found.radii[0, :2] > 0.4)
    assert np.all(found.radii[0, 2] == 0)
    assert np.all(found.radii[1] < 1e-14)
    assert np.all(np.abs(found.value[1] - [1, 0, 0]) < 1e-14)

"""Float balls themselves: how they are made of balls, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from reference_engine.arithmetic.arbs import NotInBalls, Undecided
from reference_engine.arithmetic.float_enclosures import (
    FloatBall,
    Singly,
    exactly_floats,
    of_balls,
    standing,
)
from reference_engine.traced import ROWS

X = FloatBall(np.array([0.5, 1.0, 2.0]), np.array([0.1, 0.1, 0.1]))


def test_a_ball_does_not_become_an_array() -> None:
    with pytest.raises(TypeError, match="radius"):
        np.asarray(X)


def test_only_so_many_numbers_go_one_by_one() -> None:
    with Singly(5) as _, pytest.raises(NotInBalls, match="one by one"):
        ROWS["erf"](exactly_floats(np.ones(6)))
    ROWS["erf"](exactly_floats(np.ones(6)))


def test_a_step_on_its_edge_is_undecided() -> None:
    with pytest.raises(Undecided):
        ROWS["floor"](exactly_floats([1.0]))
    with standing():
        assert ROWS["floor"](exactly_floats([1.0])).value.tolist() == [1.0]


def test_balls_of_any_precision_are_held() -> None:
    third = arb(1) / 3
    found = of_balls(np.array([third], dtype=object))
    assert abs(third - arb(found.value[0])) <= arb(found.radii[0])

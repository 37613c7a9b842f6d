"""Rows that move the numbers of float balls."""

from __future__ import annotations

import numpy as np

from reference_engine.arithmetic.float_enclosures import FloatBall, exactly_floats
from reference_engine.traced import ROWS

X = FloatBall(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3]))


def test_radii_go_where_their_numbers_go() -> None:
    found = ROWS["flip"](X)
    assert found.value.tolist() == [3, 2, 1]
    assert found.radii.tolist() == [0.3, 0.2, 0.1]
    padded = ROWS["pad"](X, pad_width=1, value=7.0)
    assert padded.value.tolist() == [7, 1, 2, 3, 7]
    assert padded.radii.tolist() == [0, 0.1, 0.2, 0.3, 0]
    assert ROWS["getitem"](X, index=(np.array([2, 0]),)).radii.tolist() == [0.3, 0.1]


def test_what_is_added_up_on_its_way_is_rounded() -> None:
    found = ROWS["cumsum"](exactly_floats([0.1, 0.2, 0.3]), axis=0)
    assert np.all(found.radii[1:] > 0)
    assert np.all(found.radii < 1e-15)
    spread = ROWS["scatter"](X, shape=(2,), index=(np.array([0, 0, 1]),))
    assert np.all(np.abs(spread.value - [3, 3]) < 1e-15)
    assert np.all(spread.radii >= [0.3, 0.3])


def test_exact_numbers_stay_exact_where_they_only_move() -> None:
    assert ROWS["transpose"](exactly_floats(np.ones((2, 3)))).radius is None
    assert ROWS["concatenate"](exactly_floats([1.0]), np.array([2.0]), axis=0).radius is None

"""What a projection asks for, direction by direction."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.evaluation import Projection


def test_without_directions_every_entry_is_one() -> None:
    whole = Projection()
    assert np.array_equal(whole.cotangents((2, 2)).reshape(4, 4), np.eye(4))
    assert np.array_equal(whole.tangents("x", (3,)), np.eye(3))
    assert whole.cotangents(()).tolist() == [1.0]
    assert whole.tangents("x", (0, 2)).shape == (0, 0, 2)


def test_directions_have_the_shape_of_what_moves() -> None:
    some = Projection(rows=np.ones((3, 4)), columns={"x": np.arange(8).reshape(2, 4)})
    assert some.cotangents((2, 2)).shape == (3, 2, 2)
    assert some.tangents("x", (2, 2)).dtype == np.float64
    assert np.array_equal(some.tangents("x", (2, 2))[1], [[4, 5], [6, 7]])
    assert np.array_equal(some.tangents("y", (2,)), np.eye(2))

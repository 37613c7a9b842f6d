"""A choice between balls is made where they tell, and a tie is noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

from reference_engine.arithmetic.arbs import Undecided, objects
from reference_engine.arithmetic.ball_choices import (
    CHOICES,
    NOTHING,
    argsort,
    choose,
    floor_of_quotient,
    larger,
    noting_ties,
    order,
    smaller,
)

WIDE = arb(1, 0.5)


def numbers(x: Any) -> list[float]:
    return [float(one) for one in np.ravel(x)]


@pytest.mark.parametrize(
    ("a", "b", "way"),
    [(arb(1), arb(2), -1), (arb(2), arb(2), 0), (arb(3), WIDE, 1), (WIDE, WIDE, 0)],
)
def test_the_order_of_balls_that_tell(a: Any, b: Any, way: int) -> None:
    assert order(a, b) == way


def test_balls_that_overlap_have_none() -> None:
    for b in (arb(1), arb(1.25, 0.5), arb(1, 0.5)):  # another one of the same numbers, too
        with pytest.raises(Undecided):
            order(WIDE, b)


@pytest.mark.parametrize("choice", [larger, smaller])
def test_equal_numbers_are_a_tie_and_others_are_none(choice: Any) -> None:
    with noting_ties() as ties:
        choice(objects([1.0]), objects([2.0]))
        assert not ties
        choice(objects([1.0]), objects([1.0]))
        assert len(ties) == 1


def test_the_ties_of_a_block_end_with_it() -> None:
    with noting_ties() as outer:
        with noting_ties() as inner:
            larger(objects([1.0]), objects([1.0]))
        assert inner
        assert not outer


def test_nothing_is_nothing_times_anything() -> None:
    assert NOTHING * arb("inf") is NOTHING
    assert -NOTHING is NOTHING
    assert NOTHING + arb(2) == 2
    assert arb(5) - NOTHING == 5


def test_a_branch_that_is_not_taken_may_be_anything() -> None:
    found = choose(np.array([True, False]), objects([1.0, np.nan]), objects([np.inf, 2.0]))
    assert numbers(found) == [1.0, 2.0]


def test_equal_elements_stay_in_their_order() -> None:
    assert argsort(objects([2.0, 1.0, 2.0, 1.0])).tolist() == [1, 3, 0, 2]
    assert argsort(objects([2.0, 1.0, 2.0, 1.0]), descending=True).tolist() == [0, 2, 1, 3]


def test_the_floor_of_a_quotient_that_straddles_a_whole_number_is_undecided() -> None:
    assert floor_of_quotient(arb(7), arb(2)) == 3
    assert floor_of_quotient(arb(-7), arb(2)) == -4
    with pytest.raises(Undecided):
        floor_of_quotient(arb(2, 0.5), arb(1))


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("max", [1.0, 3.0, 2.0], [3.0]),
        ("argmin", [1.0, 3.0, 0.5], [2.0]),
        ("cummax", [1.0, 3.0, 2.0], [1.0, 3.0, 3.0]),
        ("sort", [3.0, 1.0, 2.0], [1.0, 2.0, 3.0]),
        ("abs", [-3.0, 2.0], [3.0, 2.0]),
    ],
)
def test_rows_that_choose(name: str, x: list[float], expected: list[float]) -> None:
    assert numbers(CHOICES[name](objects(x))) == expected

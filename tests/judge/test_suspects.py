"""What is looked at again, and traced: entries that are not simply right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.judge import lose_little, suspect_entries, suspects
from tests.judge.making import answer, block, case

ULP = 2.0**-23
AT_KINK = block(0.0, kind=PointKind.KINK, between=(-1, 1))


def test_the_worst_entry_is_traced_with_its_true_value() -> None:
    made = case([answer({"x": [1.0, 2.5, 3.1]})], {"x": block([1.0, 2.0, 3.0])})
    (found,) = suspects(made)
    assert (found.mode, found.trace.input, found.trace.column) == ("reverse", "x", 1)
    assert found.trace.target == 2.0
    assert not suspects(case([answer({"x": 2.0})], {"x": block(2.0)}))


def test_entries_that_are_not_simply_right_are_marked() -> None:
    made = case([answer({"x": [1.0, 2.5]})], {"x": block([1.0, 2.0])})
    marked = suspect_entries(made)
    assert marked is not None
    assert marked["reverse", "x"].tolist() == [[False, True]]


def test_an_error_of_half_of_the_digits_is_not_little() -> None:
    known = replace(block(1.0), certified=np.ones((1, 1), np.bool_))

    def of(computed: float) -> bool:
        made = case([answer({"x": computed})], {"x": known}, wide={"x": 1.0})
        suspected = suspect_entries(made)
        return suspected is not None and lose_little(made, suspected)

    assert of(1 + 20 * ULP)
    assert not of(1 + 2000 * ULP)
    assert not of(np.inf)


def test_the_cost_of_rounding_is_asked_for_before_modes_are_said_to_disagree() -> None:
    def modes(reverse: float, forward: float) -> list[tuple[str, str | None]]:
        both = [answer({"x": reverse}), answer({"x": forward}, mode="forward")]
        return [(s.mode, s.trace.input) for s in suspects(case(both, {"x": AT_KINK}))]

    assert modes(0.5, 0.5 * (1 + 40 * ULP)) == [("reverse", "x")]
    assert not modes(0.5, 0.5)

"""Ties: shares that are right one by one may be wrong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.truth import Hull, PointKind
from gradcheck_cli.judge import judge
from gradcheck_cli.judge.kinks import outside_hull
from tests.every import first
from tests.judge.making import answer, block, case, failed

KINK = PointKind.KINK
TIE = block([0.5, 0.5], kind=KINK, between=(0, 1), confirmed=False)


def along(*weights: float, low: float, high: float, error: float = 0.0) -> Hull:
    """The slopes of one output along a direction in `x`."""
    return Hull(
        {"x": np.array(weights)}, np.array([low]), np.array([high]), np.full(1, float(error))
    )


# max follows both tied elements together, and rises when they part, whichever way
OF_MAX = (along(1, 1, low=1, high=1), along(1, -1, low=-1, high=1))


def tie(g: Any, *hulls: Hull, **fields: Any) -> Case:
    return case([answer({"x": g})], {"x": TIE}, inputs={"x": np.ones(2)}, hulls=hulls, **fields)


def convicted(made: Case) -> dict[str, list[Any]]:
    return {name: mask.tolist() for name, mask in outside_hull(made, made.evaluations[0]).items()}


@pytest.mark.parametrize(
    ("g", "right"),
    [
        ([0.5, 0.5], True),
        ([1.0, 0.0], True),
        ([0.0, 1.0], True),
        ([0.25, 0.75], True),
        ([1 / 3, 2 / 3 + 2.0**-24], True),  # the shares are rounded
        ([1.0, 1.0], False),
        ([0.0, 0.0], False),
        ([0.5, 0.4999], False),
        ([1.5, -0.5], False),
    ],
)
def test_shares_of_a_tie(g: list[float], right: bool) -> None:
    assert convicted(tie(g, *OF_MAX)) == ({} if right else {"x": [[True, True]]})


def test_no_direction_convicts_nobody() -> None:
    assert convicted(tie([1.0, 1.0])) == {}


@pytest.mark.parametrize(("error", "right"), [(0.0, False), (0.9, False), (1.0, True)])
def test_error_bar_of_the_slopes(error: float, right: bool) -> None:
    hull = along(1, 1, low=1, high=1, error=error)
    assert (convicted(tie([1.0, 1.0], hull)) == {}) is right


def test_only_the_entries_that_moved_and_have_a_kink() -> None:
    hull = along(1, 1, 0, low=1, high=1)
    truth = block([0.5, 2.0, 0.5], kind=[KINK, 0, KINK], between=([0, 2, 0], [1, 2, 1]))
    made = case(
        [answer({"x": [1.0, 2.0, 1.0]})], {"x": truth}, inputs={"x": np.ones(3)}, hulls=[hull]
    )
    assert convicted(made) == {"x": [[True, False, False]]}


def test_rows_are_judged_apart() -> None:
    hull = Hull({"x": np.ones(2)}, np.ones(2), np.ones(2), np.zeros(2))
    truth = block([[0.5, 0.5], [0.5, 0.5]], kind=KINK, between=(0, 1))
    made = case(
        [answer({"x": [[1.0, 0.0], [1.0, 1.0]]}, output=[1, 1])],
        {"x": truth},
        inputs={"x": np.ones(2)},
        hulls=[hull],
    )
    assert convicted(made) == {"x": [[False, False], [True, True]]}


def test_ties_between_two_inputs() -> None:
    one = np.ones(1)
    hull = Hull({"x": one, "y": one}, one, one, np.zeros(1))
    share = block(0.5, kind=KINK, between=(0, 1))
    made = case(
        [answer({"x": 1.0, "y": 1.0})],
        {"x": share, "y": share},
        formula="maximum(x, y)",
        inputs={"x": 1.0, "y": 1.0},
        hulls=[hull],
    )
    assert convicted(made) == {"x": [[True]], "y": [[True]]}


@pytest.mark.parametrize("g", [None, [np.nan, 1.0], [np.inf, 0.0]])
def test_what_is_no_number_is_judged_elsewhere(g: Any) -> None:
    assert convicted(tie(g, *OF_MAX)) == {}


def test_failures_and_missing_truth_convict_nobody() -> None:
    made = tie([1.0, 1.0], *OF_MAX)
    assert outside_hull(made, failed("raised")) == {}
    assert outside_hull(replace(made, truth=None), made.evaluations[0]) == {}


# --- with everything computed ---


def giving(*shares: float) -> Callable[[Evaluation], Evaluation]:
    """An engine that shares the gradient of a tie in its own way."""

    def change(evaluation: Evaluation) -> Evaluation:
        gradient = replace(evaluation.gradients["x"], values=np.array([shares]))
        return replace(evaluation, gradients={"x": gradient})

    return change


@pytest.mark.parametrize("dtype", first(1, ["float32", "float64"]))
@pytest.mark.parametrize("formula", ["max(x)", "maximum(x[0], x[1])", "-minimum(-x[0], -x[1])"])
@pytest.mark.parametrize(
    ("shares", "codes"),
    [
        ((0.5, 0.5), ["GC401"]),
        ((1.0, 0.0), ["GC401"]),
        ((0.0, 1.0), ["GC401"]),
        ((1.0, 1.0), ["GC101"]),
        ((0.0, 0.0), ["GC101"]),
        ((2.0, -1.0), ["GC101"]),
    ],
)
def test_tie_of_max(
    judged: Callable[..., Any], formula: str, dtype: str, shares: tuple[float, ...], codes: Any
) -> None:
    made = judged(
        formula,
        {"x": np.array([3.0, 3.0])},
        dtype=dtype,
        engines=("reference",),
        change=giving(*shares),
    )
    assert made.codes == codes


def test_what_the_engines_do_themselves_is_accepted(judged: Callable[..., Any]) -> None:
    made = judged("max(x) + sum(relu(y))", {"x": np.array([1.0, 1.0, 0.5]), "y": np.zeros(2)})
    assert made.codes == ["GC401"]
    assert made.passed


@pytest.mark.parametrize(("g", "right"), [(1.828434, True), (1.0, True), (1.8294, False)])
def test_the_slope_of_one_side_may_be_rounded(g: float, right: bool) -> None:
    """By as many digits as nothing is said of where a function is smooth."""
    side = block(1.4, kind=KINK, between=(1.0, 1.82842712), confirmed=False)
    _, found = judge(case([answer({"x": g})], {"x": side}))
    codes = {finding.code for finding in found} - {"GC401"}
    assert codes == (set() if right else {"GC101"})

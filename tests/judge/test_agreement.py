"""Modes and engines against each other, where no truth decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Evaluation, Mode, Projection
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge import judge
from gradcheck_cli.truth.certified.enclose import DOUBT
from tests.judge.making import Numbers, answer, block, case, failed

NAN, INF = np.nan, np.inf
ULP = 2.0**-23
KINK, OPEN = PointKind.KINK, PointKind.UNDECIDED
AT_KINK = block(0.0, kind=KINK, between=(-1, 1))
UNKNOWN = block(NAN, INF, kind=OPEN, between=(NAN, NAN), confirmed=False)


def modes(reverse: Numbers, forward: Numbers, truth: TruthBlock, **fields: Any) -> Case:
    """One engine in both modes."""
    both = [answer({"x": reverse}), answer({"x": forward}, mode="forward")]
    return case(both, {"x": truth}, **fields)


def engines(first: Numbers, second: Numbers, truth: TruthBlock, **fields: Any) -> Case:
    """Two engines in reverse mode."""
    both = [answer({"x": first}, engine="torch"), answer({"x": second}, engine="tensorflow")]
    return case(both, {"x": truth}, **fields)


def codes(made: Case) -> list[str]:
    return [finding.code for finding in judge(made)[1]]


@pytest.mark.parametrize(
    ("reverse", "forward", "truth", "expected"),
    [
        (1.0, 1.0, AT_KINK, ["GC401"]),
        (1.0, -1.0, AT_KINK, ["GC401", "GC105"]),
        (0.5, 0.5 * (1 + 6 * ULP), AT_KINK, ["GC401"]),  # rounding
        (0.5, 0.5 * (1 + 40 * ULP), AT_KINK, ["GC401"]),  # too: in float64 they agree
        (0.5, 0.501, AT_KINK, ["GC401", "GC105"]),
        (1.0, 1.0, UNKNOWN, ["GC501"]),
        (1.0, 2.0, UNKNOWN, ["GC105"]),  # which says more than undecided
        (1.0, INF, UNKNOWN, ["GC501"]),
        # where the truth decides, it says which mode is wrong
        (1.0, -1.0, block(1.0), ["GC101"]),
        (1.0 - 4 * ULP, 1 + 4 * ULP, block(1.0), []),
        (1.0, 7.0, AT_KINK, ["GC101", "GC401"]),
    ],
)
def test_modes(reverse: float, forward: float, truth: TruthBlock, expected: list[str]) -> None:
    assert codes(modes(reverse, forward, truth, wide={"x": forward})) == expected


@pytest.mark.parametrize(("floor", "condition"), [(1e-7, 0.0), (0.0, 1e-7)])
def test_what_rounding_explains_is_no_disagreement(floor: float, condition: float) -> None:
    unknown = block(
        NAN, INF, kind=OPEN, between=(NAN, NAN), confirmed=False, floor=floor, condition=condition
    )
    assert codes(modes(1.0, 1 + 5e-7, unknown)) == ["GC501"]
    assert codes(modes(1.0, 1 + 5e-6, unknown)) == ["GC105"]


def test_modes_that_differ_are_both_named() -> None:
    made = modes([1.0, -1.0], [1.0, 0.25], block([0.0, 0.0], kind=KINK, between=(-1, 1)))
    finding = judge(replace(made, values={"x": np.zeros(2)}))[1][-1]
    assert (finding.code, finding.severity, finding.engine) == ("GC105", "error", "torch")
    assert finding.message == "the gradient of `x` is -1 in reverse and 0.25 in forward"
    assert [(entry.index, entry.computed) for entry in finding.entries] == [((1,), -1.0)]


def test_a_small_difference_is_shown_with_all_its_digits() -> None:
    made = modes(0.5, 0.5 * (1 + 1e-10), AT_KINK, dtype="float64")
    assert "0.5 in reverse and 0.50000000005 in forward" in judge(made)[1][-1].message


def test_modes_of_different_engines_are_not_compared() -> None:
    both = [
        answer({"x": 1.0}, engine="torch"),
        answer({"x": -1.0}, engine="reference", mode="forward"),
    ]
    assert codes(case(both, {"x": AT_KINK})) == ["GC401"]


def test_modes_that_were_asked_different_things_are_not_compared() -> None:
    made = modes(1.0, -1.0, AT_KINK)
    random: Mapping[Mode, Projection] = {
        "reverse": Projection(rows=np.ones((1,))),
        "forward": Projection(),
    }
    assert codes(replace(made, projections=random)) == ["GC401"]


def test_conditioning_excuses_a_difference_of_modes() -> None:
    """Digits that the inputs do not determine are nobody's."""
    bar = block(1.0, 0.01, condition=1e-3, confirmed=False)
    assert codes(modes(1.0, 1.003, bar)) == ["GC501"]
    assert codes(modes(1.0, 1.009, bar)) == ["GC105"]


@pytest.mark.parametrize(
    ("first", "second", "truth", "expected"),
    [
        (1.0, 1.0, UNKNOWN, ["GC501"]),
        (1.0, 2.0, UNKNOWN, ["GC107"]),
        (1.0, 1 + 6 * ULP, UNKNOWN, ["GC501"]),
        (1.0, 1.0, block(1.0, 0.1), ["GC501"]),
        (1.0, 1.001, block(1.0, 0.1), ["GC107"]),
        # at a kink each may choose; where the truth decides, one of them is wrong
        (1.0, -1.0, AT_KINK, ["GC401"]),
        (1.0, -1.0, block(1.0), ["GC101"]),
        (None, 1.0, UNKNOWN, ["GC501"]),
    ],
)
def test_engines(
    first: float | None, second: float, truth: TruthBlock, expected: list[str]
) -> None:
    assert codes(engines(first, second, truth, wide={"x": second})) == expected


def test_engines_that_differ_are_both_named() -> None:
    finding = judge(engines(1.5, -2.0, UNKNOWN))[1][-1]
    assert (finding.code, finding.severity, finding.input) == ("GC107", "warning", "x")
    assert finding.message == "the gradient of `x` is 1.5 in torch and -2 in tensorflow"


def test_modes_between_which_rounding_decides_do_not_disagree() -> None:
    """As with a rank: each mode may have another one. Engines that differ are named: GC107 blames
    neither of them."""
    found = []
    for made in (modes(1.0, 2.0, UNKNOWN), engines(1.0, 2.0, UNKNOWN)):
        assert made.truth is not None
        reasons = dict.fromkeys(made.truth.blocks, DOUBT)
        found.append(codes(replace(made, truth=replace(made.truth, reasons=reasons))))
    assert found == [["GC501"], ["GC107"]]


def test_engines_in_different_modes_or_without_an_answer_are_not_compared() -> None:
    apart = [answer({"x": 1.0}), answer({"x": 2.0}, engine="reference", mode="forward")]
    assert codes(case(apart, {"x": UNKNOWN})) == ["GC501"]
    alone = [answer({"x": 1.0}), failed("raised", engine="reference")]
    assert codes(case(alone, {"x": UNKNOWN})) == ["GC701", "GC501"]


def test_second_derivatives_of_both_kinds_are_compared() -> None:
    both = [
        answer({"x.x": 1.0}, mode="reverse-over-reverse"),
        answer({"x.x": 2.0}, mode="forward-over-reverse"),
    ]
    assert codes(case(both, {"x.x": UNKNOWN})) == ["GC105"]


# --- with everything computed ---


def test_modes_of_the_engines_agree_at_kinks(judged: Callable[..., Any]) -> None:
    formula = "abs(x[0]) + relu(x[1]) + maximum(x[2], x[3]) + clip(x[4], 0, 1)"
    made = judged(formula, {"x": np.zeros(5)}, modes=("reverse", "forward"))
    assert made.codes == ["GC401"]


def test_mode_with_another_convention(judged: Callable[..., Any]) -> None:
    def other_slope(evaluation: Evaluation) -> Evaluation:
        if evaluation.mode != "forward":
            return evaluation
        gradient = replace(evaluation.gradients["x"], values=np.array([[1.0]]))
        return replace(evaluation, gradients={"x": gradient})

    made = judged(
        "abs(x)",
        {"x": 0.0},
        modes=("reverse", "forward"),
        engines=("reference",),
        change=other_slope,
    )
    assert made.codes == ["GC105", "GC401"]


@pytest.mark.parametrize("made", [modes, engines])
@pytest.mark.parametrize(
    ("beside", "apart"), [(1.0, False), (1e-3, True), (0.0, True), (INF, True)]
)
def test_what_is_invisible_beside_a_larger_entry_is_no_disagreement(
    made: Callable[..., Case], beside: float, apart: bool
) -> None:
    """Two roundings of a number that should be 0, in the gradient of one output."""
    one, other = np.array([[-6.9e-7, beside]]), np.array([[-7.4e-7, beside]])
    unknown = block(np.full((1, 2), NAN), np.full((1, 2), INF), kind=OPEN, confirmed=False)
    found = codes(made(one, other, unknown, values={"x": np.zeros(2)}))
    assert bool({"GC105", "GC107"} & set(found)) is apart

"""The steps of an examination, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks import protocol
from gradcheck_cli.checks.protocol import Ask, CaseExamination, CastsRequest, Steps, drive
from gradcheck_cli.domain.case import Case, Suspect
from gradcheck_cli.domain.evaluation import Evaluation, Gradient, Projection
from gradcheck_cli.domain.truth import Cost, Truth, TruthBlock
from tests.conftest import spec_of

QUESTION = CastsRequest()


class Square(CaseExamination):
    """x^2 at 3, of which an engine says that its derivative is `slope`; rounding may cost it
    `cost`, and in float64 it is `wide`."""

    def __init__(self, slope: float, cost: float = 0.0, wide: float = 6.0) -> None:
        super().__init__()
        self.slope, self.cost, self.wide = slope, cost, wide

    def made(self, cost: float | None = None) -> Case:
        """`cost`: where it was asked for."""
        none, known = np.zeros((1, 1)), np.ones((1, 1), dtype=np.bool_)
        costs = none + (cost or 0.0)
        block = TruthBlock.of(
            none + 6.0, none, condition=costs, allowance=costs, floor=costs, confirmed=known
        )
        nothing = np.zeros(())
        of_output = None if cost is None else Cost(nothing, nothing, nothing)
        truth = {("reverse", "x"): block}
        return Case(
            spec=spec_of("x ** 2", {"x": 3.0}),
            point=None,
            dtype="float32",
            values={"x": np.array(3.0)},
            projections={"reverse": Projection()},
            evaluations=(self.evaluation("float32", self.slope),),
            truth=Truth("float32", np.array(9.0), nothing, truth, output_cost=of_output),
        )

    def evaluation(self, dtype: str, slope: float) -> Evaluation:
        gradients = {"x": Gradient(np.array([[slope]]))}
        return Evaluation("reference", dtype, "float32", "reverse", np.array(9.0), gradients)

    def asked(self, what: str) -> Steps[Any]:
        return (yield [Ask(what, QUESTION)])

    def first_look(self) -> Steps[Case]:
        yield from self.asked("first look")
        return self.made()

    def cost_of_rounding(self) -> Steps[Case]:
        yield from self.asked("cost of rounding")
        return self.made(self.cost)

    def second_look(self, found: Sequence[Suspect]) -> Steps[Case]:
        assert [suspect.engine for suspect in found] == ["reference"]
        yield from self.asked("second look")
        wide = {("reference", "reverse"): self.evaluation("float64", self.wide)}
        return replace(self.case, wide=wide)

    def fixes(self) -> Steps[None]:
        yield from self.asked("fixes")


def driven(examined: Square) -> list[str | None]:
    """What was asked."""
    asked: list[str | None] = []
    drive(examined.steps(), lambda ask: asked.append(ask.engine))
    return asked


def codes(examined: Square) -> list[str]:
    return [finding.code for finding in examined.findings]


def test_what_is_right_is_looked_at_once() -> None:
    examined = Square(slope=6.0)
    assert driven(examined) == ["first look"]
    assert [check.status for check in examined.checks] == ["passed"]


def test_what_rounding_explains_is_not_looked_at_again() -> None:
    examined = Square(slope=6.00001, cost=0.00001)
    assert driven(examined) == ["first look", "cost of rounding"]
    assert [check.status for check in examined.checks] == ["passed"]


def test_an_error_in_both_precisions_is_wrong() -> None:
    examined = Square(slope=7.0, wide=7.0)
    assert driven(examined) == ["first look", "cost of rounding", "second look", "fixes"]
    assert codes(examined) == ["GC101"]


def test_an_error_in_one_precision_is_lost_precision() -> None:
    examined = Square(slope=7.0)
    assert driven(examined) == ["first look", "cost of rounding", "second look", "fixes"]
    assert codes(examined) == ["GC301"]


@pytest.mark.parametrize("name", ["suspects", "judge"])
def test_a_judge_that_breaks_is_a_mistake(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def broken(case: object) -> object:
        return 1 / 0

    monkeypatch.setattr(protocol, name, broken)
    examined = Square(slope=7.0)
    driven(examined)
    assert {mistake.code for mistake in examined.mistakes} == {"GC706"}
    assert all(
        mistake.message.startswith("the numbers could not be judged: ZeroDivisionError")
        for mistake in examined.mistakes
    )


def test_an_explanation_that_breaks_leaves_the_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: object, findings: object) -> object:
        return 1 / 0

    monkeypatch.setattr("gradcheck_cli.explain.explain", broken)
    examined = Square(slope=7.0)
    assert driven(examined)[-1] == "fixes"
    assert codes(examined) == ["GC301"]
    assert [one.message.partition(":")[0] for one in examined.mistakes] == [
        "the findings could not be explained"
    ]

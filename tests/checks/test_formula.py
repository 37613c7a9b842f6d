"""What a formula asks, step by step, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gradcheck_cli.checks.formula import Formula
from gradcheck_cli.checks.protocol import Ask
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Failure, Problem
from gradcheck_cli.domain.fixes import FixRequest
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.spec_state import Work
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.formulas.screening import screen
from tests.conftest import loaded, spec_of

RIGHT = ("x ** 2", 2.0)
LOSSY = ("(exp(x) - 1) / x", 1e-4)
UNSTABLE = ("3 * (1 / exp(x))", 100.0)
LATE = Failure("timed-out", "gave no answer within 60 s")
GONE = Failure("crashed", "the worker process was killed by SIGSEGV")


def formula(text: str, x: float) -> Formula:
    options = RunOptions(dtypes=Layered(override=("float32",)))
    (look,) = Work(make_plan(spec_of(text, {"x": x}), options, engines())).looks
    return look


def honest(ask: Ask) -> Any:
    question = ask.question
    if isinstance(question, TruthRequest):
        return compute(question)
    if isinstance(question, FixRequest):
        return screen(question)
    assert isinstance(question, Problem)
    return loaded(ask.engine or "reference").evaluate(question)


def driven(look: Formula, answer: Any = honest) -> list[Sequence[Ask]]:
    """All that was asked, in batches."""
    batches: list[Sequence[Ask]] = []
    steps = look.steps()
    try:
        batches.append(next(steps))
        while True:
            batches.append(steps.send([answer(ask) for ask in batches[-1]]))
    except StopIteration:
        return batches


def failing(kind: type, failure: Failure, looks: int = 0) -> Any:
    """Answers to questions of this kind are a failure, after so many that are not."""
    left = [looks]

    def answer(ask: Ask) -> Any:
        if not isinstance(ask.question, kind):
            return honest(ask)
        left[0] -= 1
        return failure if left[0] < 0 else honest(ask)

    return answer


def codes(look: Formula) -> set[str]:
    return {finding.code for finding in look.findings}


def test_what_is_right_is_looked_at_once() -> None:
    look = formula(*RIGHT)
    (first,) = driven(look)
    assert [(ask.engine, type(ask.question)) for ask in first] == [
        ("reference", Problem),
        (None, TruthRequest),
    ]
    assert [check.status for check in look.checks] == ["passed"]
    assert look.findings == ()


def test_what_is_unstable_goes_through_every_step() -> None:
    look = formula(*UNSTABLE)
    _, rounding, second, screening, trial, *_ = driven(look)
    (ask,) = rounding
    assert isinstance(ask.question, TruthRequest)
    assert ask.question.conditioning
    assert ask.question.known is not None
    assert [(ask.engine, ask.question.dtype) for ask in second] == [
        ("reference", "float32"),
        ("reference", "float64"),
    ]
    assert all(isinstance(a.question, Problem) and a.question.trace for a in second)
    assert [type(ask.question) for ask in screening] == [FixRequest]
    assert {ask.engine for ask in trial} == {"reference"}
    (finding,) = look.findings
    assert finding.code == "GC201"
    assert finding.cause is not None
    assert finding.fix is not None
    assert finding.fix.model == "3 * exp(-x)"


def test_a_second_look_that_failed_leaves_the_first_as_it_is() -> None:
    look = formula(*UNSTABLE)

    def answer(ask: Ask) -> Any:
        traced = isinstance(ask.question, Problem) and ask.question.trace
        return replace(honest(ask), failure=GONE) if traced else honest(ask)

    driven(look, answer)
    assert look.case.traced == look.case.wide == {}
    assert "GC201" in codes(look)
    assert look.mistakes == []


def test_a_truth_that_is_late_is_a_note_and_one_that_crashed_is_a_mistake() -> None:
    late, gone = formula(*RIGHT), formula(*RIGHT)
    driven(late, failing(TruthRequest, LATE))
    assert late.case.no_truth == LATE
    assert late.notes == ["the truth could not be computed: gave no answer within 60 s"]
    assert codes(late) == {"GC501"}
    driven(gone, failing(TruthRequest, GONE))
    assert gone.notes == []
    assert codes(gone) == {"GC706"}


def test_what_was_known_before_the_cost_of_rounding_stays() -> None:
    look = formula(*UNSTABLE)
    driven(look, failing(TruthRequest, GONE, looks=1))
    assert look.case.truth is not None
    assert look.case.no_truth is None
    assert "GC201" in codes(look)
    assert [finding.code for finding in look.mistakes] == ["GC706"]


def test_lost_digits_are_undecided_where_the_cost_of_rounding_is_late() -> None:
    look = formula(*LOSSY)
    driven(look, failing(TruthRequest, LATE, looks=1))
    assert codes(look) == {"GC501"}
    assert "the cost of rounding could not be computed" in look.findings[0].message
    assert look.notes == ["the cost of rounding could not be computed: gave no answer within 60 s"]
    driven(weighed := formula(*LOSSY))
    assert codes(weighed) == {"GC301"}


@pytest.mark.parametrize("failure", [LATE, GONE])
def test_a_screening_that_failed_is_told_beside_the_finding(failure: Failure) -> None:
    look = formula(*UNSTABLE)
    driven(look, failing(FixRequest, failure))
    (finding,) = look.findings
    assert (finding.code, finding.fix) == ("GC201", None)
    told = ["no fix was tried: gave no answer within 60 s"], []
    assert (look.notes, [one.code for one in look.mistakes]) == (
        told if failure is LATE else ([], ["GC706"])
    )

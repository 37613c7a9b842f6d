"""What counts as an answer, and what stands in for one."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.checks.findings import finding_for
from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Problem, Training, TrainingProblem
from gradcheck_cli.domain.fixes import Screened
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem, LayerProgress, LiftRequest
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.run.workers.replies import (
    answering,
    blame_replaced_function,
    failed,
    known_already,
    unanswered,
)
from tests.checks.making import layer_problem
from tests.conftest import program_of

GONE = Failure("crashed", "gone")
PROGRAM, VALUES = program_of("x ** 2", {"x": 1.0}), {"x": np.array(1.0)}
TRUTH = TruthRequest(PROGRAM, VALUES, {}, ("x",), "float32", {})
QUESTIONS = {
    Evaluation: Problem(PROGRAM, VALUES, ("x",), "float32", "float32", "reverse"),
    Training: TrainingProblem(PROGRAM, VALUES, ("x",), 0.5, 1, "float32", "float32"),
    LayerAnswer: layer_problem("layer", {"x": 1.0}),
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_failure_stands_in_an_answer_of_the_kind_that_was_asked_for(kind: type) -> None:
    question = QUESTIONS[kind]
    answer = failed("torch", question, GONE)
    assert isinstance(answer, kind)
    assert answer.failure == GONE  # type: ignore[attr-defined]
    assert answering(answer, question, "torch") is not None


@pytest.mark.parametrize(
    ("question", "where"),
    [
        (QUESTIONS[Evaluation], "float32 reverse"),
        (QUESTIONS[Training], "float32 training"),
        (LiftRequest(layer_problem("layer", {"x": 1.0})), "float64"),
    ],
)
def test_a_failure_says_at_which_question_it_happened(question: object, where: str) -> None:
    """But in the answer to that question, if it has a dtype: such failures are reported together
    for all dtypes."""
    first, second = unanswered("torch", [question, TRUTH], GONE)
    assert second.message == f"gone (in {where})"
    assert (second if isinstance(first, Failure) else GONE) == getattr(first, "failure", first)


def test_of_the_truth_a_failure_is_an_answer_itself() -> None:
    assert failed("reference", TRUTH, GONE) is GONE
    assert answering(GONE, TRUTH, "reference") is GONE


def test_an_answer_to_another_question_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="answers with a Screened, not a Truth"):
        answering(Screened(()), TRUTH, "reference")


def test_an_exception_of_ours_is_the_layers_where_it_replaced_a_function() -> None:
    ours = LayerAnswer(failure=Failure("internal", "no number", "a traceback"))
    found = blame_replaced_function(ours, lambda: "numpy.isfinite").failure
    assert found is not None
    assert (found.kind, found.detail) == ("raised", "a traceback")
    assert "`numpy.isfinite` was replaced" in found.message
    assert blame_replaced_function(ours, str) == ours
    theirs = LayerAnswer(failure=Failure("raised", "a layer's words"))
    assert blame_replaced_function(theirs, lambda: "numpy.isfinite") == theirs


def test_so_is_a_mistake_in_what_was_judged() -> None:
    problem = layer_problem("layer", {"x": 1.0})
    mistake = finding_for(problem, Codes.INTERNAL, "the numbers could not be judged")
    other = finding_for(problem, Codes.WRONG_GRADIENT, "wrong")
    ours = LayerAnswer(findings=(mistake, other))
    found = blame_replaced_function(ours, lambda: "numpy.isfinite").findings
    assert [one.code for one in found] == [Codes.ENGINE_RAISED, Codes.WRONG_GRADIENT]
    assert "`numpy.isfinite`" in found[0].message


def test_how_far_a_layer_is_may_be_known_before_its_answer() -> None:
    progress, problem = LayerProgress("differences", 12, 30), object.__new__(LayerProblem)
    assert known_already(progress, problem, "torch") is progress
    assert known_already(LayerAnswer(), problem, "torch") == LayerAnswer()
    with pytest.raises(EngineFault, match="LayerProgress"):
        answering(progress, problem, "torch")

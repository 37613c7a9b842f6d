"""Checks whether an answer fits its question, and makes the answer for a question that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.case import CurveRequest, TruthRequest
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.curve import Curve
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Problem, Training, TrainingProblem
from gradcheck_cli.domain.fixes import FixRequest, Screened
from gradcheck_cli.domain.layer import (
    LayerAnswer,
    LayerProblem,
    LayerProgress,
    LiftedRun,
    LiftRequest,
)
from gradcheck_cli.domain.search import (
    GradientProgram,
    GradientRequest,
    SearchAnswer,
    SearchRequest,
)
from gradcheck_cli.domain.suite import SuiteListing, SuiteRequest
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.engines import answers
from gradcheck_cli.engines.errors import EngineFault

_KINDS: dict[type, tuple[type, ...]] = {
    TruthRequest: (Truth, Failure),
    CurveRequest: (Curve, Failure),
    FixRequest: (Screened, Failure),
    LayerProblem: (LayerAnswer,),
    LiftRequest: (LiftedRun, Failure),
    GradientRequest: (GradientProgram, Failure),
    SearchRequest: (SearchAnswer, Failure),
    SuiteRequest: (SuiteListing, Failure),
}


def answering(answer: Any, question: object, engine: str) -> Any:
    """The answer. Raises EngineFault if it has the wrong type or is about something else."""
    if isinstance(question, Problem):
        return answers.evaluation(answer, question, engine)
    if isinstance(question, TrainingProblem):
        return answers.training(answer, question, engine)
    kinds = _KINDS.get(type(question), (Failure,))  # of what is no question there is but that
    if not isinstance(answer, kinds):
        raise EngineFault(f"it answers with a {type(answer).__name__}, not a {kinds[0].__name__}")
    return answer


def known_already(value: Any, question: object, engine: str) -> Any:
    """The known part of an answer under way. Raises EngineFault as `answering` does."""
    if isinstance(question, LayerProblem) and isinstance(value, LayerProgress):
        return value
    return answering(value, question, engine)


def failed(engine: str, question: object, failure: Failure) -> Any:
    """The answer to a question that could not be answered."""
    if isinstance(question, Problem):
        return Evaluation(engine, question.dtype, question.rounding, question.mode, failure=failure)
    if isinstance(question, TrainingProblem):
        return Training(engine, question.dtype, failure=failure)
    return LayerAnswer(failure=failure) if isinstance(question, LayerProblem) else failure


def unanswered(engine: str, questions: Sequence[Any], failure: Failure) -> Iterator[Any]:
    """The answers to the questions that were left when the worker failed. It was working on the
    first of them; the others name that question. The first does not if it has a dtype, so that the
    same failure in several dtypes is reported once."""
    first, *others = questions
    where = replace(failure, message=f"{failure.message} (in {_question_words(first)})")
    plain = isinstance(first, Problem | TrainingProblem | LayerProblem)
    yield failed(engine, first, failure if plain else where)
    for question in others:
        yield failed(engine, question, where)


def _question_words(question: Any) -> str:
    if isinstance(question, LiftRequest):
        question = question.problem
    if isinstance(question, Problem):
        return f"{question.dtype} {question.mode}"
    return f"{question.dtype} training" if isinstance(question, TrainingProblem) else question.dtype


def blame_replaced_function(answer: LayerAnswer, replaced: Callable[[], str]) -> LayerAnswer:
    """The answer, with the layer to blame for an exception in gradcheck's own code if the layer has
    `replaced` a function of this name, which gradcheck calls, too."""
    failure = answer.failure
    failed = failure is not None and failure.kind == "internal"
    mistaken = any(finding.code == Codes.INTERNAL for finding in answer.findings)
    if not (failed or mistaken) or not (name := replaced()):
        return answer
    words = f"`{name}` was replaced while the layer ran, but gradcheck calls it"
    if failure is not None and failed:
        failure = replace(failure, kind="raised", message=words)
    findings = tuple(
        replace(finding, code=Codes.ENGINE_RAISED, message=words)
        if finding.code == Codes.INTERNAL
        else finding
        for finding in answer.findings
    )
    return replace(answer, failure=failure, findings=findings)

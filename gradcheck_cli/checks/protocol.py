"""The protocol of an examination: first look, cost of rounding, second look, judge, explain, fixes.

This module runs no engine. The steps are a generator that yields questions and is sent answers. Its
driver sends them to workers (`run/session.py`) or answers them in its own process (`drive`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from gradcheck_cli.domain.case import Case, CurveRequest, Suspect, TruthRequest
from gradcheck_cli.domain.dtypes import quiet
from gradcheck_cli.domain.evaluation import Failure, Problem, TrainingProblem
from gradcheck_cli.domain.fixes import FixRequest
from gradcheck_cli.domain.layer import LayerProblem, LiftRequest
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.search import GradientRequest, SearchRequest
from gradcheck_cli.judge import is_suspect, judge, suspects
from gradcheck_cli.judge.failures import internal_finding


@dataclass(frozen=True, slots=True)
class CastsRequest:
    """Asks whether a layer casts to a narrower dtype. If so, the examination starts again and
    discards its earlier results."""


Question = (
    Problem
    | TrainingProblem
    | TruthRequest
    | FixRequest
    | CurveRequest
    | LayerProblem
    | LiftRequest
    | CastsRequest
    | GradientRequest
    | SearchRequest
)
T = TypeVar("T")
Steps = Generator["Sequence[Ask]", Any, T]
"""Yields independent questions together, is sent the answers in the same order, and returns a T."""

JUDGING = "the numbers could not be judged"
EXPLAINING = "the findings could not be explained"
FIXES = "fixes could not be tried"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question for an engine, or (None) for the reference worker, which computes the truth."""

    engine: str | None
    question: Question


class Examination(ABC):
    """Something to examine in `steps`, and the results. `checks`, `findings` and `notes` are for
    the report; `mistakes` are the findings about gradcheck's own code (GC706). `case` holds the
    evidence collected so far."""

    case: Case

    def __init__(self) -> None:
        self.checks: tuple[Check, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self.mistakes: list[Finding] = []
        self.notes: list[str] = []

    @abstractmethod
    def steps(self) -> Steps[None]:
        """Run the examination. Exceptions in the judge and in explanations become `mistakes`;
        earlier results stay."""

    def mistaken(self, failure: Failure) -> None:
        """Record a failure of gradcheck's own code."""
        self.mistakes.append(internal_finding(self.case, failure))

    @contextmanager
    def ours(self, what: str) -> Iterator[None]:
        """Run a block of gradcheck's own code: an exception becomes a mistake whose message is
        `what`, and the examination goes on."""
        try:
            yield
        except Exception as error:
            from gradcheck_cli.engines.tracebacks import internal_failure

            self.mistaken(internal_failure(error, what))


class CaseExamination(Examination):
    """An examination that compares numbers with their truth. The order of the steps is the same for
    all; subclasses define each look."""

    def steps(self) -> Steps[None]:
        self.case = yield from self.first_look()
        suspected = False
        with self.ours(JUDGING):
            suspected = is_suspect(self.case)
        if not suspected:
            pass
        elif self.is_settled():
            self.case = replace(self.case, settled=True)
        else:
            self.case = yield from self.cost_of_rounding()
            found: tuple[Suspect, ...] = ()
            with self.ours(JUDGING):
                found = suspects(self.case)
            if found:
                self.case = yield from self.second_look(found)
        self.case = self.completed()
        with self.ours(JUDGING):
            self.checks, self.findings = judge(self.case)
        yield from self.stages_blamed()
        if not self.findings:  # spare right gradients the imports below
            return
        with self.ours(EXPLAINING):
            from gradcheck_cli.explain import explain

            self.findings = explain(self.case, self.findings)
        yield from self.fixes()

    @abstractmethod
    def first_look(self) -> Steps[Case]:
        """Collect every evaluation, and the truth as far as it is cheap to compute."""

    def is_settled(self) -> bool:
        """Whether the suspects need no second look, because no cost of rounding could turn them
        into findings."""
        return False

    @abstractmethod
    def cost_of_rounding(self) -> Steps[Case]:
        """Add the cost of rounding to the truth; it explains most suspects."""

    @abstractmethod
    def second_look(self, found: Sequence[Suspect]) -> Steps[Case]:
        """Evaluate the suspects again in another precision, to tell an error from rounding."""

    def completed(self) -> Case:
        """The case for the judge."""
        return self.case

    def stages_blamed(self) -> Steps[None]:
        """Name the stage of a compiler that causes a finding."""
        yield from ()

    def fixes(self) -> Steps[None]:
        """Add fixes to the findings."""
        yield from ()


@quiet
def drive(steps: Steps[T], answer: Callable[[Ask], Any]) -> T:
    """Run all steps in this process and return their result."""
    answers = None  # starts the generator
    while True:
        try:
            asks = steps.send(answers)
        except StopIteration as end:
            return end.value
        answers = [answer(ask) for ask in asks]

"""The protocol of an examination: first look, cost of rounding, second look, judge, explain, fixes.

It runs nothing itself. Its steps are a generator that yields questions and is sent their answers;
whoever drives it has workers for them (`run/session.py`) or asks in its own process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from gradcheck_cli.domain.case import Case, CurveRequest, Suspect, TruthRequest
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
    """Asks whether a layer goes on in a narrower dtype on its way. It is examined anew then: what
    was found out so far means nothing."""


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
"""Yields what can be asked at once, is sent the answers in the same order, and ends with a T."""

JUDGING = "the numbers could not be judged"
EXPLAINING = "the findings could not be explained"
FIXES = "fixes could not be tried"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question for an engine, or (None) for the reference worker, which computes the truth."""

    engine: str | None
    question: Question


class Examination(ABC):
    """Something that is examined in `steps`, and what came of it: `checks`, `findings`, `notes`
    for people, and `mistakes`, the findings about gradcheck's own code (GC706). `case` is what is
    known so far."""

    case: Case

    def __init__(self) -> None:
        self.checks: tuple[Check, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self.mistakes: list[Finding] = []
        self.notes: list[str] = []

    @abstractmethod
    def steps(self) -> Steps[None]:
        """Examines it. Exceptions in judge and explanation become `mistakes`, and what was found
        before stays."""

    def mistaken(self, failure: Failure) -> None:
        """Keeps a failure of gradcheck's own code."""
        self.mistakes.append(internal_finding(self.case, failure))

    @contextmanager
    def ours(self, what: str) -> Iterator[None]:
        """Inside the block gradcheck works by itself: an exception there is a mistake, which says
        `what` could not be done, and the examination goes on."""
        try:
            yield
        except Exception as error:
            from gradcheck_cli.engines.tracebacks import internal_failure

            self.mistaken(internal_failure(error, what))


class CaseExamination(Examination):
    """Numbers that are compared with their truth. The steps are the same for all; how a look is
    taken depends on what is examined."""

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
            if found := self._suspects():
                self.case = yield from self.second_look(found)
        self.case = self.completed()
        with self.ours(JUDGING):
            self.checks, self.findings = judge(self.case)
        yield from self.stages_blamed()
        if not self.findings:  # nothing of this is imported for what is right
            return
        with self.ours(EXPLAINING):
            from gradcheck_cli.explain import explain

            self.findings = explain(self.case, self.findings)
        yield from self.fixes()

    def _suspects(self) -> tuple[Suspect, ...]:
        found: tuple[Suspect, ...] = ()
        with self.ours(JUDGING):
            found = suspects(self.case)
        return found

    @abstractmethod
    def first_look(self) -> Steps[Case]:
        """Every evaluation, and the truth as far as it is cheap."""

    def is_settled(self) -> bool:
        """Whether nothing will be said of the suspects, whatever rounding costs."""
        return False

    @abstractmethod
    def cost_of_rounding(self) -> Steps[Case]:
        """The truth with what rounding may cost, which explains most of what is suspect."""

    @abstractmethod
    def second_look(self, found: Sequence[Suspect]) -> Steps[Case]:
        """What tells an error from rounding: suspects once more, in another precision."""

    def completed(self) -> Case:
        """The case as the judge is given it."""
        return self.case

    def stages_blamed(self) -> Steps[None]:
        """Names the stage of a compiler that is to blame for a finding, where one is."""
        yield from ()

    def fixes(self) -> Steps[None]:
        """Adds fixes to the findings, where there are any for what is examined."""
        yield from ()


def drive(steps: Steps[T], answer: Callable[[Ask], Any]) -> T:
    """Goes through all steps in this process."""
    answers = None  # begins
    while True:
        try:
            asks = steps.send(answers)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answers = [answer(ask) for ask in asks]

"""A formula at one point in one dtype, examined on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradcheck_cli.checks.protocol import EXPLAINING, Ask, CaseExamination, Steps
from gradcheck_cli.domain.case import Case, Suspect, TruthRequest
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Problem
from gradcheck_cli.domain.fixes import FixRequest, Screened
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.judge import flushed

if TYPE_CHECKING:
    from gradcheck_cli.explain.fixes.trials import Tried

LIMITS = ("timed-out", "out-of-memory")
"""Failures of the reference worker that are limits of the run, and no mistake of gradcheck's."""


class Formula(CaseExamination):
    """`case` has no answers yet but those of engines that refuse. `problems` has each engine's
    questions of the first look, in the order of the engines; `truth` asks what is right."""

    def __init__(
        self, case: Case, problems: Mapping[str, Sequence[Problem]], truth: TruthRequest
    ) -> None:
        super().__init__()
        self.case = case
        self._problems = problems
        self._truth = truth

    def first_look(self) -> Steps[Case]:
        asks = [Ask(engine, one) for engine, mine in self._problems.items() for one in mine]
        count = len(asks)
        if self._truth.projections:
            asks.append(Ask(None, self._truth))
        answers = yield asks
        order = list(self._problems)
        evaluations = [*self.case.evaluations, *answers[:count]]
        evaluations.sort(key=lambda evaluation: order.index(evaluation.engine))
        case = replace(self.case, evaluations=tuple(evaluations))
        return self._knowing(case, *answers[count:])

    def cost_of_rounding(self) -> Steps[Case]:
        request = replace(self._truth, conditioning=True, known=self.case.truth)
        answers = yield [Ask(None, request)]
        return self._knowing(self.case, *answers)

    def _knowing(self, case: Case, truth: Truth | Failure | None = None) -> Case:
        """The case with its truth, or with why there is none."""
        if truth is None:
            return case
        if isinstance(truth, Truth):
            return replace(case, truth=truth)
        if truth.kind in LIMITS:
            what = "truth" if case.truth is None else "cost of rounding"
            self.notes.append(f"the {what} could not be computed: {truth.message}")
        else:
            truth = replace(truth, kind="internal")
        if case.truth is None:
            return replace(case, no_truth=truth)
        if truth.kind == "internal":
            self.mistaken(truth)
        return replace(case, unweighed=True)

    def second_look(self, found: Sequence[Suspect]) -> Steps[Case]:
        """With a trace, in its own precision and in another one; where inputs are subnormal, also
        what the reference engine gives at them and at 0."""
        case, zeros = self.case, flushed(self.case)
        other = "float32" if case.dtype == "float64" else "float64"
        seen: dict[str, dict[Any, Evaluation]] = {
            name: {} for name in ("traced", "wide", "kept", "zero")
        }
        requested: dict[tuple[str, Any], Ask] = {}  # by what it is for in the case
        for suspect in found:
            engine, mode = key = suspect.engine, suspect.mode
            problem = next(p for p in self._problems[engine] if p.mode == mode)
            traced = replace(problem, trace=suspect.trace)
            requested["traced", key] = Ask(engine, traced)
            requested["wide", key] = Ask(engine, replace(traced, dtype=other))
            if zeros:
                requested.setdefault(("kept", mode), Ask(None, problem))
                requested.setdefault(("zero", mode), Ask(None, replace(problem, values=zeros)))
        answers = yield list(requested.values())
        for (name, key), answer in zip(requested, answers, strict=True):
            if answer.failure is None:  # the first look stays as it is
                seen[name][key] = answer
        return replace(case, **seen)  # type: ignore[arg-type]

    def fixes(self) -> Steps[None]:
        """The reference worker screens candidates; the engines with findings try the best, then
        the others where that is not enough, then the formula as it stands where a fix is not
        right."""
        from gradcheck_cli.explain.fixes import trials

        request = screened = None
        answers: dict[Tried, Evaluation] = {}
        with self.ours(EXPLAINING):
            request = trials.request(self.case, self._truth, self.findings)
        if request is not None:
            screened = yield from self._screened(request)
        if screened is not None:
            with self.ours("fixes could not be tried"):
                for which in (trials.problems, trials.problems, trials.originals):
                    tried = dict(which(self.case, screened, self.findings, answers))
                    if tried:
                        found = yield [Ask(one.engine, tried[one]) for one in tried]
                        answers |= zip(tried, found, strict=True)
        with self.ours("the fixes could not be reported"):
            self.findings = trials.with_fixes(self.case, self.findings, screened, answers)

    def _screened(self, request: FixRequest) -> Steps[Screened | None]:
        (answer,) = yield [Ask(None, request)]
        if isinstance(answer, Screened):
            return answer
        if answer.kind in LIMITS:
            self.notes.append(f"no fix was tried: {answer.message}")
        else:
            self.mistaken(answer)
        return None

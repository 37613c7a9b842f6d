"""Examine a formula at one point in one dtype on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gradcheck_cli.checks.compiled import Examined, blamed_on_a_stage
from gradcheck_cli.checks.protocol import EXPLAINING, FIXES, Ask, CaseExamination, Steps
from gradcheck_cli.checks.readings import graph_of
from gradcheck_cli.domain.case import Case, CurveRequest, Suspect, TruthRequest
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.curve import MOST_DRAWN, Curve
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Evaluation, Failure, Problem, TraceRequest
from gradcheck_cli.domain.fixes import FixRequest, Screened
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.truth import Truth
from gradcheck_cli.judge import flushed, judge

LIMITS = ("timed-out", "out-of-memory")
"""Failures of the reference worker that are limits of the run, not faults of gradcheck."""


class Formula(CaseExamination):
    """The examination of one formula. `case` starts with the evaluations of engines that refuse.
    `problems` has each engine's first questions, in the order of the engines; `truth` asks for the
    derivative. If `illustrated`, there is a graph with numbers and a curve, if possible."""

    def __init__(
        self,
        case: Case,
        problems: Mapping[str, Sequence[Problem]],
        truth: TruthRequest,
        illustrated: bool = False,
    ) -> None:
        super().__init__()
        self.case = case
        self.graphs: tuple[Graph, ...] = ()
        self.curve: Curve | None = None
        self._problems = problems
        self._truth = truth
        self._illustrated = illustrated

    def steps(self) -> Steps[None]:
        yield from super().steps()
        if self._illustrated and self.case.truth is not None:
            yield from self._pictures(self.case.truth)

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
        return self._with_truth(case, *answers[count:])

    def cost_of_rounding(self) -> Steps[Case]:
        request = replace(self._truth, conditioning=True, known=self.case.truth)
        answers = yield [Ask(None, request)]
        return self._with_truth(self.case, *answers)

    def _with_truth(self, case: Case, truth: Truth | Failure | None = None) -> Case:
        """The case with its truth, or with the reason why there is none."""
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
        """Evaluate the suspects with a trace, in their own precision and in another one. If inputs
        are subnormal, the reference engine also evaluates the formula at these inputs and at 0."""
        case, zeros = self.case, flushed(self.case)
        other = "float32" if case.dtype == "float64" else "float64"
        seen: dict[str, dict[Any, Evaluation]] = {
            name: {} for name in ("traced", "wide", "kept", "zero")
        }
        requested: dict[tuple[str, Any], Ask] = {}  # by the field of the case, and its key there
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
            if answer.failure is None:  # otherwise the first look stands
                seen[name][key] = answer
        runs = seen["traced"]
        self.graphs = tuple(
            graph_of(run, case, one.trace)
            for one in found
            if (run := runs.get((one.engine, one.mode)))
            and run.trace is not None  # an engine may not trace
            and one.mode in FIRST_ORDER
        )
        return replace(case, **seen)  # type: ignore[arg-type]

    def _pictures(self, truth: Truth) -> Steps[None]:
        """Ask the reference worker for the curve, and for the graph if no engine made one."""
        mode = next((mode for mode in FIRST_ORDER if mode in self._truth.projections), None)
        inputs = sum(self.case.values[name].size for name in self.case.spec.wrt)
        asks: list[Ask] = []
        if inputs <= MOST_DRAWN:
            asks.append(Ask(None, CurveRequest(self.case.spec.name, self._truth, truth)))
        trace = TraceRequest(input=self.case.spec.wrt[0])
        if mode is not None and not self.graphs:
            projection = self._truth.projections[mode]
            question = self.case.problem(mode, projection=projection, trace=trace)
            asks.append(Ask(None, question))
        for answer in (yield asks):
            if isinstance(answer, Curve):
                self.curve = answer
            elif isinstance(answer, Evaluation) and answer.failure is None:
                self.graphs = (graph_of(answer, self.case, trace),)
            else:
                self._no_picture(answer)

    def _no_picture(self, answer: Evaluation | Failure) -> None:
        failure = answer.failure if isinstance(answer, Evaluation) else answer
        assert failure is not None
        if failure.kind == "internal":
            self.mistaken(failure)
        else:
            self.notes.append(f"a picture could not be made: {failure.message}")

    def stages_blamed(self) -> Steps[None]:
        if not any(self.case.stages.values()):
            return
        found: list[Finding] = []
        for engine, mode in dict.fromkeys((one.engine, one.mode) for one in self.findings):
            mine = [one for one in self.findings if (one.engine, one.mode) == (engine, mode)]
            stages = self.case.stages.get(engine or "", ())
            asked = self._problems[engine] if engine and stages else ()
            disagree = any(one.code == Codes.MODES_DISAGREE for one in mine)
            problems = [one for one in asked if disagree or one.mode == mode]
            if engine and problems:
                examined = partial(self._examined_at, engine, problems)
                found += yield from blamed_on_a_stage(mine, stages, examined)
            else:
                found += mine
        self.findings = tuple(found)

    def _examined_at(self, engine: str, problems: Sequence[Problem], stage: str) -> Steps[Examined]:
        answers = yield [Ask(engine, replace(one, stage=stage)) for one in problems]
        return judge(replace(self.case, evaluations=tuple(answers)))

    def fixes(self) -> Steps[None]:
        """Screen candidates in the reference worker, then try the best ones on the engines with
        findings, then the others if needed; if a fix is not right there, run the formula itself for
        comparison."""
        from gradcheck_cli.explain.fixes import trials

        request = screened = None
        with self.ours(EXPLAINING):
            request = trials.request(self.case, self._truth, self.findings)
        if request is not None:
            screened = yield from self._screened(request)
        tries = trials.Trials(self.case, self.findings, screened)
        with self.ours(FIXES):
            for tried in tries.rounds():
                if tried:
                    found = yield [Ask(one.engine, tried[one]) for one in tried]
                    tries.answers |= zip(tried, found, strict=True)
        with self.ours("the fixes could not be reported"):
            self.findings = tries.with_fixes()

    def _screened(self, request: FixRequest) -> Steps[Screened | None]:
        (answer,) = yield [Ask(None, request)]
        if isinstance(answer, Screened):
            return answer
        if answer.kind in LIMITS:
            self.notes.append(f"no fix was tried: {answer.message}")
        else:
            self.mistaken(answer)
        return None

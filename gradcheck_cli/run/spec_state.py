"""The state of a spec during a run: its examinations, and the questions that they ask together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from gradcheck_cli.checks.compiled import notes_of_better
from gradcheck_cli.checks.failures import drop_implied, with_failure
from gradcheck_cli.checks.formula import Formula
from gradcheck_cli.checks.ports import Ports
from gradcheck_cli.checks.protocol import Ask, Examination, Question, Steps
from gradcheck_cli.checks.readings import readings_of
from gradcheck_cli.checks.training import TrainingPaths
from gradcheck_cli.domain.evaluation import Failure, Training, TrainingProblem, modes_in, order_of
from gradcheck_cli.domain.implications import OF_ORDERS, without_implied
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.search import SearchRequest
from gradcheck_cli.run.finalize import Found
from gradcheck_cli.run.plan import Plan, cpu_only

if TYPE_CHECKING:
    from gradcheck_cli.run.searched import Searched

Place = tuple[int, int]
"""Which examination asked, and which of its questions it is."""


_ALONE = (LayerProblem, SearchRequest)
"""Questions whose batch has no others of another examination: they take long."""

NOTABLE_S = 0.05
"""From here on there was something to compile; looking into a cache takes less."""


class Layer:
    """The examination of a layer. The worker of its engine does all of it."""

    def __init__(self, problem: LayerProblem) -> None:
        self._problem = problem
        self.engine = problem.implementation.engine
        self.answer = LayerAnswer()

    def steps(self) -> Steps[None]:
        """Asks the worker."""
        (answer,) = yield [Ask(self.engine, self._problem)]
        self.answer = with_failure(self._problem, answer)


@dataclass(slots=True)
class Batch:
    """Questions for one engine (None: for the truth), and where their answers belong."""

    engine: str | None
    places: list[Place] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


class Work:
    """A spec under way. The questions of all its examinations are asked together, in one batch per
    engine, and the examinations continue when all are answered. `waiting` batches have no answer
    yet. `seconds` counts the time of each engine."""

    def __init__(self, plan: Plan, searched: Searched | None = None) -> None:
        self.plan = plan
        self.searched = searched
        self.waiting = 0
        self.seconds: dict[str | None, float] = {}
        self.looks = [
            Formula(look.case, look.problems, look.truth, look.illustrated)
            for look in plan.looks
            if look.case.evaluations or any(look.problems.values())
        ]
        self.layers = [Layer(problem) for problem in plan.layers]
        self.ports = Ports(plan.layers) if _several(plan) else None
        self.trainings = [_training_paths(plan, problem) for problem in plan.trainings]
        examinations: list[Examination | Layer] = [*self.looks, *self.layers, *self.trainings]
        steps = [examination.steps() for examination in examinations]
        if self.ports is not None:
            steps.append(self._compared(self.ports))
        if searched is not None:
            steps.append(searched.steps())
        self._steps = dict(enumerate(steps))
        self._answers: dict[int, list[Any]] = {}

    @property
    def done(self) -> bool:
        """Whether all examinations are finished."""
        return not self._steps

    def next_batches(self) -> list[Batch]:
        """The next questions of the examinations. Each layer has its own batch, so that a failure
        of one layer does not cost the answers of others."""
        batches: dict[tuple[str | None, int | None], Batch] = {}
        for number, steps in list(self._steps.items()):
            try:
                asks = steps.send(self._answers.get(number))  # None begins
            except StopIteration:
                del self._steps[number]
                continue
            self._answers[number] = [None] * len(asks)
            for place, ask in enumerate(asks):
                alone = number if isinstance(ask.question, _ALONE) else None
                batch = batches.setdefault((ask.engine, alone), Batch(ask.engine))
                batch.places.append((number, place))
                batch.questions.append(ask.question)
        return list(batches.values())

    def _compared(self, ports: Ports) -> Steps[None]:
        yield []  # the layers are asked first
        yield from ports.steps([layer.answer for layer in self.layers])

    def keep(self, place: Place, answer: Any) -> None:
        """Hands an answer to the examination that asked."""
        number, question = place
        self._answers[number][question] = answer

    def found(self) -> Found:
        """Everything that the examinations found."""
        layers = [layer.answer for layer in self.layers]
        examined: list[Examination] = [*self.looks, *self.trainings]
        found = Found(
            findings=drop_implied(self.plan.layers, layers),
            trainings=[path for training in self.trainings for path in training.paths],
            layers=layers,
            duration_s=max(self.seconds.values(), default=0.0),
            compile_s=self._compile_s(),
        )
        for part in examined:
            found.checks += part.checks
            found.notes += part.notes
        found.findings += self._of_every_order(examined)
        if self.searched is not None:
            found.findings = self.searched.added_to(found.findings)
            found.notes += self.searched.notes
        found.checks = self._without_open_ends(found.checks, found.findings)
        for look in self.looks:
            found.readings += readings_of(look.case)
            found.graphs += look.graphs
            found.curve = found.curve or look.curve
        for layer in layers:
            found.checks += layer.checks
            found.readings += layer.readings
            found.graphs += layer.graphs
            found.curve = found.curve or layer.curve
            found.notes += layer.notes
        if self.ports is not None:
            found.findings += self.ports.findings
            found.notes += self.ports.notes
        for part in examined:
            found.findings += part.mistakes
        found.notes += self._fallbacks()
        found.notes += notes_of_better(found.checks, found.findings)
        for engine, seconds in found.compile_s.items():
            found.notes.append(f"{engine}: compiled in {seconds:.1f} s")
        return found

    def _of_every_order(self, examined: Sequence[Examination]) -> list[Finding]:
        """The findings. A finding about a third derivative is left out if a lower derivative at the
        same point, or of a composition that it differentiates, has a finding."""
        third = [
            look for look in self.looks if all(order_of(mode) > 2 for mode in look.case.projections)
        ]
        lower = [finding for part in examined if part not in third for finding in part.findings]
        points = {(one.dtype, one.point) for one in lower if one.engine is None}
        higher = [
            finding
            for look in third
            for finding in look.findings
            if finding.engine is not None or (finding.dtype, finding.point) not in points
        ]
        return without_implied([*lower, *higher], OF_ORDERS) if third else lower

    def _without_open_ends(
        self, checks: Sequence[Check], findings: Sequence[Finding]
    ) -> list[Check]:
        """The checks, without undecided ones of third derivatives if a finding about a lower
        derivative explains them."""
        said = {(one.dtype, one.point) for one in findings if one.engine is None}
        return [
            check
            for check in checks
            if len(modes_in(check.mode)) < 3
            or (check.dtype, check.point) not in said
            or all(one.rule != "undecided" for one in check.passed_by)
        ]

    def _fallbacks(self) -> Iterator[str]:
        """A sentence for each case in which finite differences replaced the certified truth."""
        dtypes: dict[str, dict[str, None]] = {}
        for look in self.looks:
            if look.case.truth is not None and look.case.truth.fallback:
                dtypes.setdefault(look.case.truth.fallback, {})[look.case.dtype] = None
        for reason, where in dtypes.items():
            yield (
                f"{', '.join(where)}: no certified truth ({reason}); finite differences and "
                "float64 decide"
            )

    def _compile_s(self) -> dict[str, float]:
        """How many seconds each engine spent compiling. The time limit excludes them."""
        seconds: dict[str, float] = defaultdict(float)
        for look in self.looks:
            for evaluation in look.case.evaluations:
                seconds[evaluation.engine] += evaluation.compile_s
        for layer in self.layers:
            seconds[layer.engine] += layer.answer.compile_s
        return {engine: s for engine, s in seconds.items() if s >= NOTABLE_S}


def _several(plan: Plan) -> bool:
    """Whether several layers are to be compared with each other, because no formula is given for
    them."""
    engines = {problem.implementation.engine for problem in plan.layers}
    return plan.spec.model is None and len(engines) > 1


def _training_paths(plan: Plan, problem: TrainingProblem) -> TrainingPaths:
    """The training paths of a problem. An engine that does not compute on the device is left out
    silently, unless it was named."""
    paths: dict[str, Training | None] = {}
    for name in plan.engines:
        if name not in plan.without:
            paths[name] = None
        elif name in plan.named:
            failure = Failure("unsupported", cpu_only(name, plan))
            paths[name] = Training(name, problem.dtype, failure=failure)
    start = next(look for look in plan.looks if look.case.dtype == problem.dtype)
    return TrainingPaths(start.case, problem, paths)

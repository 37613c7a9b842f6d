"""A run from specs to events: plan, evaluate, look twice at what is suspect, judge, try fixes for
what is unstable, settle."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from gradcheck_cli.domain.case import Suspect, TruthRequest
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import (
    Evaluation,
    Problem,
    Training,
    TrainingProblem,
)
from gradcheck_cli.domain.events import EngineReady, Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.fixes import FixRequest
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.report import Check, Finding, Reading, Report, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import Registered, engines, usual
from gradcheck_cli.judge import flushed, judge, judge_training, suspects
from gradcheck_cli.judge.failures import internal_finding
from gradcheck_cli.run.finalize import reading, settle, training_result
from gradcheck_cli.run.plan import TRUTH_TIMEOUT_S, Plan, choose_engines, make_plan, placed
from gradcheck_cli.run.pool import Done, Imported, Pool, Task
from gradcheck_cli.run.spec_state import (
    Kind,
    Work,
    answers_of,
    case_of,
    compilations,
    fallbacks,
    keep,
    new_work,
    ours,
    training_case_of,
)
from gradcheck_cli.version import VERSION

_Question = tuple[Kind, int, Problem | TrainingProblem | TruthRequest | FixRequest | LayerProblem]

_RUNS = count()  # of this process: several may share their workers


@dataclass(frozen=True, slots=True)
class _Key:
    """What a task is about: the spec by number, the engine (None: the reference worker, for the
    truth), and for each question what its answer is and to which look or training it belongs."""

    spec: int
    engine: str | None
    places: tuple[tuple[Kind, int], ...]


def run(specs: Iterable[Spec], options: RunOptions, pool: Pool | None = None) -> Iterator[Event]:
    """Checks `specs` and tells what happens: Started, EngineReady, SpecFinished (in the order of
    the specs), Finished.

    `specs` may still be reading: each goes to the engines as it comes, and Started follows when all
    are known. After KeyboardInterrupt, also one thrown in between two events, Finished comes at
    once with what was done. Raises UsageError for an engine that is named and not there, and under
    `python -OO`.

    The workers of `pool` are used and, where the run ends in good order, left to whoever brought
    them; after any other end the pool is empty, and the next run starts fresh ones. `options` must
    be those that the pool was made with.
    """
    if sys.flags.optimize > 1:
        raise UsageError(
            "gradcheck cannot run under `python -OO`, which strips docstrings: its rewrite rules "
            "are written in them",
            "run it under `python` or `python -O`, and without PYTHONOPTIMIZE=2",
        )
    return _Session(options, pool).events(specs)


class _Session:
    def __init__(self, options: RunOptions, pool: Pool | None) -> None:
        self._options = options
        self._registered = engines()
        self._borrowed = pool is not None
        self._pool = pool or Pool(options.jobs, options.show_framework_output)
        self._number = next(_RUNS)
        self._start = time.monotonic()
        self._works: list[Work] = []
        self._results: dict[int, SpecResult] = {}
        self._versions: dict[str, str] = {}
        self._told: set[str] = set()

    def events(self, specs: Iterable[Spec]) -> Iterator[Event]:
        interrupted = False
        in_order = False
        try:
            yield from self._follow(specs)
            in_order = len(self._results) == len(self._works)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if in_order and not self._borrowed:
                self._pool.close()
            elif not in_order:
                self._pool.kill()
        yield Finished(self._report(interrupted))

    def _follow(self, specs: Iterable[Spec]) -> Iterator[Event]:
        self._start_engines()
        for spec in specs:
            self._submit(spec)
        used = dict.fromkeys(name for work in self._works for name in work.plan.engines)
        yield Started(len(self._works), tuple(used))
        next_spec = 0
        while True:
            while next_spec in self._results:
                result = self._results[next_spec]
                yield SpecFinished(result)
                if self._options.fail_fast and result.status == "failed":
                    self._results = {i: r for i, r in self._results.items() if i <= next_spec}
                    return
                next_spec += 1
            if next_spec == len(self._works):
                return
            message = self._pool.results.get()
            if isinstance(message, Imported):
                known = message.engine in self._versions  # on another device
                self._versions[message.engine] = message.version
                if message.engine in used and not known:
                    yield EngineReady(message.engine, message.version, message.seconds)
                continue
            self._receive(message)

    def _start_engines(self) -> None:
        """The reference worker serves the truth in every run. Engines that the command line names
        need not wait for the first spec either."""
        self._start_engine("reference")
        if self._options.engines.override:
            for name in choose_engines(None, self._options, self._registered)[0]:
                self._start_engine(name, placed(None, self._options))

    def _start_engine(self, name: str, placement: Placement = HOST) -> None:
        found = self._registered[name].engine
        if found is not None and placement.kind not in found.capabilities.devices:
            placement = HOST
        self._pool.start(name, self._registered[name].target, placement)

    def _submit(self, spec: Spec) -> None:
        plan = make_plan(spec, self._options, self._registered)
        for name in plan.engines:
            self._start_engine(name, plan.placement)
        number = len(self._works)
        work = new_work(plan)
        self._works.append(work)
        looks, trainings = plan.looks, plan.trainings
        for engine in plan.engines:
            asked: list[_Question] = []
            for i, look in enumerate(looks):
                asked += [("first", i, problem) for problem in look.problems[engine]]
            if engine not in plan.without:
                asked += [("path", i, problem) for i, problem in enumerate(trainings)]
            self._ask(number, engine, asked)
        truths: list[_Question] = [
            ("truth", i, look.truth) for i, look in enumerate(looks) if look.truth.projections
        ]
        for i, problem in enumerate(trainings):
            truths.append(("exact", i, replace(problem, dtype="float64")))
            truths.append(("near", i, problem))
        self._ask(number, None, truths)
        for i, layer in enumerate(plan.layers):  # one task each: what one loses, the others keep
            self._ask(number, layer.implementation.engine, [("layer", i, layer)])
        if not work.waiting:  # nothing that an engine could do
            self._advance(number)

    def _ask(self, number: int, engine: str | None, asked: Sequence[_Question]) -> None:
        """Gives a task to an engine's worker, or (None) to the reference worker for the truth."""
        if not asked:
            return
        work = self._works[number]
        work.waiting += 1
        limit = work.plan.timeout if engine else max(work.plan.timeout, TRUTH_TIMEOUT_S)
        key = _Key(number, engine, tuple((kind, index) for kind, index, _ in asked))
        questions = [question for _, _, question in asked]
        self._pool.submit(
            Task(
                key=key,
                engine=engine or "reference",
                questions=questions,
                timeout=limit,
                priority=number,
                memory=work.plan.memory,
                group=(self._number, number, engine),
                placement=work.plan.placement_of(engine) if engine else HOST,
            )
        )

    def _receive(self, done: Done) -> None:
        key: _Key = done.task.key
        work = self._works[key.spec]
        work.waiting -= 1
        work.seconds[key.engine] = work.seconds.get(key.engine, 0.0) + done.seconds
        for (kind, index), answer in zip(key.places, _filled(done), strict=True):
            keep(work, kind, index, answer)
        self._advance(key.spec)

    def _advance(self, number: int) -> None:
        """Goes on with a spec until it has to wait for answers."""
        work = self._works[number]
        stages = (
            self._weigh,
            self._look_twice,
            self._judge,
            self._try_fixes,
            self._try_fixes,
            self._try_originals,
            self._finish,
        )
        while work.waiting == 0 and work.stages < len(stages):
            work.stages += 1
            stages[work.stages - 1](number)

    def _weigh(self, number: int) -> None:
        """Asks for the cost of rounding where something is suspect: it explains most of it."""
        work = self._works[number]
        truths: list[_Question] = []
        for i, look in enumerate(work.plan.looks):
            case = case_of(work, i)
            with ours(work, i, "the numbers could not be judged"):
                if suspects(case):
                    again = replace(look.truth, conditioning=True, known=case.truth)
                    truths.append(("truth", i, again))
        self._ask(number, None, truths)

    def _look_twice(self, number: int) -> None:
        """Asks once more about what is still suspect: with a trace, and in another precision."""
        work = self._works[number]
        questions: dict[str, list[_Question]] = {}
        exact: list[_Question] = []
        for i, look in enumerate(work.plan.looks):
            case = case_of(work, i)
            zeros, modes = flushed(case), set[str]()
            found: tuple[Suspect, ...] = ()
            with ours(work, i, "the numbers could not be judged"):
                found = suspects(case)
            for suspect in found:
                mine = look.problems[suspect.engine]
                problem = next(p for p in mine if p.mode == suspect.mode)
                traced = replace(problem, trace=suspect.trace)
                other = "float32" if look.dtype == "float64" else "float64"
                asked = questions.setdefault(suspect.engine, [])
                asked.append(("traced", i, traced))
                asked.append(("wide", i, replace(traced, dtype=other)))
                if zeros and suspect.mode not in modes:
                    modes.add(suspect.mode)
                    exact += [("kept", i, problem), ("zero", i, replace(problem, values=zeros))]
        self._ask(number, None, exact)
        for engine, asked in questions.items():
            self._ask(number, engine, asked)

    def _judge(self, number: int) -> None:
        """Finds what is wrong, and asks the reference worker which fixes are worth a trial."""
        work = self._works[number]
        requests: list[_Question] = []
        for index, look in enumerate(work.plan.looks):
            case = case_of(work, index)
            if not case.evaluations:
                continue
            with ours(work, index, "the numbers could not be judged"):
                work.judged[index] = judge(case)
            checks, findings = work.judged.get(index, ((), ()))
            if not findings:  # nothing of this is imported for what is right
                continue
            with ours(work, index, "the findings could not be explained"):
                from gradcheck_cli.explain import explain
                from gradcheck_cli.explain.fixes import trials as fixing

                findings = explain(case, findings)
                work.judged[index] = checks, findings
                request = fixing.request(case, look.truth, findings)
                if request is not None:
                    requests.append(("screen", index, request))
        self._ask(number, None, requests)

    def _try_fixes(self, number: int) -> None:
        """Asks the engines with findings for the best of what is left of the fixes, and then for
        the others, where that is not enough."""
        self._try(number, originals=False)

    def _try_originals(self, number: int) -> None:
        """Asks them for the formula as it stands, where a fix is not right."""
        self._try(number, originals=True)

    def _try(self, number: int, originals: bool) -> None:
        work = self._works[number]
        if not work.screened:
            return
        from gradcheck_cli.explain.fixes import trials as fixing

        questions: dict[str, list[_Question]] = {}
        for index, screened in work.screened.items():
            case, findings = case_of(work, index), work.judged[index][1]
            which = fixing.originals if originals else fixing.problems
            with ours(work, index, "fixes could not be tried"):
                for tried, problem in which(case, screened, findings, answers_of(work, index)):
                    place = len(work.tried)
                    work.tried.append((index, tried))
                    questions.setdefault(tried.engine, []).append(("trial", place, problem))
        for engine, asked in questions.items():
            self._ask(number, engine, asked)

    def _finish(self, number: int) -> None:
        work = self._works[number]
        plan = work.plan
        checks: list[Check] = []
        findings: list[Finding] = []
        readings: list[Reading] = []
        for index, look in enumerate(plan.looks):
            case = case_of(work, index)
            if not case.evaluations:
                continue
            more_checks, more_findings = work.judged.get(index, ((), ()))
            checks += more_checks
            if more_findings:
                with ours(work, index, "the fixes could not be reported"):
                    from gradcheck_cli.explain.fixes.trials import with_fixes

                    answers, screened = answers_of(work, index), work.screened.get(index)
                    more_findings = with_fixes(case, more_findings, screened, answers)
            findings += more_findings
            made = (reading(plan, look, evaluation) for evaluation in case.evaluations)
            readings += [one for one in made if one is not None]
        layers, more_findings = _layers_of(work)
        for found in layers:
            checks += found.checks
            readings += found.readings
            work.notes.update(dict.fromkeys(found.notes))
        findings += more_findings
        ends = []
        for index, problem in enumerate(plan.trainings):
            training = training_case_of(work, index)
            beside = next(i for i, look in enumerate(plan.looks) if look.dtype == problem.dtype)
            with ours(work, beside, "the training could not be judged"):
                more_checks, more_findings = judge_training(training)
                checks += more_checks
                findings += more_findings
            ends += [end for path in training.paths if (end := training_result(path))]
        for index, faults in work.faults.items():
            findings += [internal_finding(case_of(work, index), one) for one in faults]
        self._results[number] = settle(
            plan,
            self._options,
            usual(self._registered),
            checks,
            findings,
            readings,
            ends,
            [*work.notes, *fallbacks(work), *compilations(work), *self._broken_engines(plan)],
            max(work.seconds.values(), default=0.0),
            layers,
        )

    def _broken_engines(self, plan: Plan) -> list[str]:
        """Entry points that cannot be used, told once a run; to name one is an error already."""
        if plan.named:
            return []
        broken: Mapping[str, Registered] = {
            name: found
            for name, found in self._registered.items()
            if found.engine is None and name not in self._told
        }
        self._told.update(broken)
        return [f"the engine `{name}` cannot be used: {e.fault}" for name, e in broken.items()]

    def _report(self, interrupted: bool) -> Report:
        used = dict.fromkeys(name for work in self._works for name in work.plan.engines)
        versions = {
            name: self._versions.get(name) or self._registered[name].version or "" for name in used
        }
        return Report(
            version=VERSION,
            engines=versions,
            seed=self._options.seed,
            duration_s=time.monotonic() - self._start,
            results=tuple(self._results[number] for number in sorted(self._results)),
            interrupted=interrupted,
        )


def _layers_of(work: Work) -> tuple[list[LayerAnswer], list[Finding]]:
    """What came of the layers of a spec, and their findings."""
    if not work.plan.layers:
        return [], []
    layers = [work.layers[index] for index in range(len(work.plan.layers))]
    if not any(layer.failure or layer.findings for layer in layers):
        return layers, []  # without importing all that examines
    from gradcheck_cli.checks.failures import told_once, with_failure

    layers = [with_failure(*pair) for pair in zip(work.plan.layers, layers, strict=True)]
    return layers, told_once(work.plan.layers, layers)


def _filled(done: Done) -> Iterator[Any]:
    """The answers, and the failure in place of each that is missing."""
    yield from done.answers
    missing = done.task.questions[len(done.answers) :]
    if not missing:
        return
    assert done.failure is not None
    failure = replace(done.failure, message=f"{done.failure.message} (in {_what(missing[0])})")
    engine = done.task.engine
    for question in missing:
        if isinstance(question, Problem):
            yield Evaluation(
                engine, question.dtype, question.rounding, question.mode, failure=failure
            )
        elif isinstance(question, TrainingProblem):
            yield Training(engine, question.dtype, failure=failure)
        elif isinstance(question, LayerProblem):
            yield LayerAnswer(failure=failure)
        else:
            yield failure


def _what(question: Any) -> str:
    if isinstance(question, Problem):
        return f"{question.dtype} {question.mode}"
    return f"{question.dtype} training" if isinstance(question, TrainingProblem) else question.dtype

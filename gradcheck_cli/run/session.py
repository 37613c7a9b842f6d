"""A run from specs to events: the pool answers what examinations ask, and each spec is settled."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import Problem, TrainingProblem
from gradcheck_cli.domain.events import EngineReady, Event, Finished, SpecFinished, Started
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import UNUSABLE, Report, SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import Registered, engines, usual
from gradcheck_cli.run.finalize import settle
from gradcheck_cli.run.plan import TRUTH_TIMEOUT_S, Plan, choose_engines, make_plan, placed
from gradcheck_cli.run.pool import Pool
from gradcheck_cli.run.replies import failed
from gradcheck_cli.run.spec_state import Batch, Work
from gradcheck_cli.run.task import Done, Imported, Task
from gradcheck_cli.version import VERSION

_RUNS = count()  # of this process: several may share their workers


@dataclass(frozen=True, slots=True)
class _Key:
    """What a task is about: the spec by number, and what was asked about it."""

    spec: int
    batch: Batch


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
        self._plans: list[Plan] = []
        self._works: dict[int, Work] = {}  # of specs that are not finished
        self._results: dict[int, SpecResult] = {}
        self._versions: dict[str, str] = {}
        self._told: set[str] = set()
        self._known = Counter(options.baseline)

    def events(self, specs: Iterable[Spec]) -> Iterator[Event]:
        interrupted = False
        in_order = False
        try:
            yield from self._follow(specs)
            in_order = len(self._results) == len(self._plans)
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
        used = dict.fromkeys(name for plan in self._plans for name in plan.engines)
        yield Started(len(self._plans), tuple(used))
        next_spec = 0
        while True:
            while next_spec in self._results:
                result = self._results[next_spec]
                yield SpecFinished(result)
                if self._options.fail_fast and result.status == "failed":
                    self._results = {i: r for i, r in self._results.items() if i <= next_spec}
                    return
                next_spec += 1
            if next_spec == len(self._plans):
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
        number = len(self._plans)
        self._plans.append(plan)
        self._works[number] = Work(plan)
        self._go_on(number)

    def _go_on(self, number: int) -> None:
        """Goes on with a spec until it has to wait for answers, or is done."""
        work = self._works[number]
        while work.waiting == 0 and not work.done:
            for batch in work.next_batches():
                work.waiting += 1
                self._pool.submit(self._task(number, batch))
        if work.waiting == 0:
            self._results[number] = self._settled(self._works.pop(number))
            for engine in {None, *self._plans[number].engines}:
                self._pool.forget((self._number, number, engine))

    def _task(self, number: int, batch: Batch) -> Task:
        plan, engine = self._plans[number], batch.engine
        return Task(
            key=_Key(number, batch),
            engine=engine or "reference",
            questions=batch.questions,
            timeout=plan.timeout if engine else max(plan.timeout, TRUTH_TIMEOUT_S),
            priority=number,
            memory=plan.memory,
            group=(self._number, number, engine),
            placement=plan.placement_of(engine) if engine else HOST,
        )

    def _receive(self, done: Done) -> None:
        key: _Key = done.task.key
        work, engine = self._works[key.spec], key.batch.engine
        work.waiting -= 1
        work.seconds[engine] = work.seconds.get(engine, 0.0) + done.seconds
        for place, answer in zip(key.batch.places, _filled(done), strict=True):
            work.keep(place, answer)
        self._go_on(key.spec)

    def _settled(self, work: Work) -> SpecResult:
        found = work.found()
        found.notes += self._broken_engines(work.plan)
        return settle(work.plan, self._options, usual(self._registered), found, self._known)

    def _broken_engines(self, plan: Plan) -> list[str]:
        """Entry points that cannot be used, reported once a run; to name one is an error
        already."""
        if plan.named:
            return []
        broken: Mapping[str, Registered] = {
            name: found
            for name, found in self._registered.items()
            if found.engine is None and name not in self._told
        }
        self._told.update(broken)
        return [f"the engine `{name}` {UNUSABLE}: {e.fault}" for name, e in broken.items()]

    def _report(self, interrupted: bool) -> Report:
        used = dict.fromkeys(name for plan in self._plans for name in plan.engines)
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
            fail_on=self._options.fail_on,
        )


def _filled(done: Done) -> Iterator[Any]:
    """The answers, and the failure in place of each that is missing."""
    yield from done.answers
    missing = done.task.questions[len(done.answers) :]
    if not missing:
        return
    assert done.failure is not None
    failure = replace(done.failure, message=f"{done.failure.message} (in {_what(missing[0])})")
    for question in missing:
        yield failed(done.task.engine, question, failure)


def _what(question: Any) -> str:
    if isinstance(question, Problem):
        return f"{question.dtype} {question.mode}"
    return f"{question.dtype} training" if isinstance(question, TrainingProblem) else question.dtype

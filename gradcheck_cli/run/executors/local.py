"""The executor of this machine: workers answer the questions that the examinations of specs ask."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from gradcheck_cli.domain.dtypes import quiet
from gradcheck_cli.domain.events import EngineReady, LayerUnderWay
from gradcheck_cli.domain.layer import LayerProgress
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.search import SearchRequest
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import default_engines, engines
from gradcheck_cli.run.executor import Examined
from gradcheck_cli.run.finalize import settle
from gradcheck_cli.run.plan import (
    TRUTH_TIMEOUT_S,
    Plan,
    choose_engines,
    make_plan,
    placed,
    placement_for,
)
from gradcheck_cli.run.spec_state import Batch, Work
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.run.workers.replies import unanswered
from gradcheck_cli.run.workers.task import Done, SoFar, Task

if TYPE_CHECKING:
    from gradcheck_cli.run.searched import Searched

_TRUTH = "reference"  # the engine that computes the truth of formulas
_RUNS = count()  # of this process: several may share their workers
_AHEAD = 256  # specs for each worker: enough to see that a further worker pays


@dataclass(frozen=True, slots=True)
class _Key:
    """Identifies a task: the number of its spec, and the question."""

    spec: int
    batch: Batch


class Local:
    """Examines specs on the workers of `pool`, or of a pool of its own. If `pool` is given and
    the run ends in good order, its workers stay for the caller; after any other end the pool is
    empty."""

    def __init__(self, options: RunOptions, pool: Pool | None = None) -> None:
        self._options = options
        self._registered = engines()
        self._borrowed = pool is not None
        self._pool = pool or Pool(options.jobs, options.show_framework_output)
        self._run = next(_RUNS)
        self._works: dict[int, Work] = {}  # of specs that are not finished
        self._finished: deque[Examined] = deque()
        self._used: dict[str, None] = {}
        self._versions: dict[str, str] = {}
        self._known = Counter(options.baseline)

    @property
    def ahead(self) -> int:
        return _AHEAD * self._pool.most

    def start(self) -> None:
        """Starts the engines that the command line names."""
        if self._options.engines.override:
            for name in choose_engines(None, self._options, self._registered)[0]:
                self._start_engine(name, placed(None, self._options))

    def submit(self, number: int, spec: Spec) -> None:
        plan = make_plan(spec, self._options, self._registered)
        for name in plan.engines:
            self._used[name] = None
            self._start_engine(name, plan.placement)
        self._works[number] = Work(plan, self._searched(plan))
        self._go_on(number)

    def _searched(self, plan: Plan) -> Searched | None:
        """The searches of a spec; most specs have none."""
        budget = self._options.search.resolve(plan.spec.search, 0.0)
        if not budget:
            return None
        from gradcheck_cli.run.searched import Searched

        searched = Searched(plan.spec, budget, self._options, self._registered)
        for name in searched.engines:
            self._start_engine(name, plan.placement)
        return searched

    def next(self) -> Examined | EngineReady | LayerUnderWay:
        while not self._finished:
            message = self._pool.results.get()
            if isinstance(message, Done):
                self._receive(message)
                continue
            if isinstance(message, SoFar):
                if isinstance(message.answer, LayerProgress):
                    spec = self._works[message.task.key.spec].plan.spec
                    return LayerUnderWay(spec.name, message.task.engine, message.answer)
                continue
            known = message.engine in self._versions  # on another device
            self._versions[message.engine] = message.version
            if message.engine in self._used and not known:
                return EngineReady(message.engine, message.version, message.seconds)
        return self._finished.popleft()

    def engines(self) -> Mapping[str, str]:
        return {
            name: self._versions.get(name) or self._registered[name].version or ""
            for name in self._used
        }

    def close(self) -> None:
        if not self._borrowed:
            self._pool.close()

    def kill(self) -> None:
        self._pool.kill()

    def _start_engine(self, name: str, placement: Placement = HOST) -> None:
        found = self._registered[name]
        self._pool.start(name, found.target, placement_for(found, placement))

    @quiet
    def _go_on(self, number: int) -> None:
        """Continues with a spec until it waits for answers or is done."""
        work = self._works[number]
        while work.waiting == 0 and not work.done:
            for batch in work.next_batches():
                work.waiting += 1
                self._pool.submit(self._task(number, batch))
        if work.waiting == 0:
            self._finished.append(Examined(number, self._settled_result(self._works.pop(number))))
            for engine in {None, *work.plan.engines}:
                self._pool.forget((self._run, number, engine))

    def _task(self, number: int, batch: Batch) -> Task:
        plan, engine = self._works[number].plan, batch.engine
        if engine is None:  # the truth of a formula
            self._start_engine(_TRUTH)
        limit = _seconds(batch) or plan.timeout
        return Task(
            key=_Key(number, batch),
            engine=engine or _TRUTH,
            questions=batch.questions,
            timeout=limit if engine else max(limit, TRUTH_TIMEOUT_S),
            priority=number,
            memory=plan.memory,
            group=(self._run, number, engine),
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

    def _settled_result(self, work: Work) -> SpecResult:
        every = default_engines(self._registered)
        return settle(work.plan, self._options, every, work.found(), self._known)


def _seconds(batch: Batch) -> float:
    """How many seconds the searches among these questions may take, because a search has its own
    budget; 0 if there are none."""
    return sum(one.limit for one in batch.questions if isinstance(one, SearchRequest))


def _filled(done: Done) -> Iterator[Any]:
    """The answers, with the failure in place of each missing one."""
    yield from done.answers
    missing = done.task.questions[len(done.answers) :]
    if missing:
        assert done.failure is not None
        yield from unanswered(done.task.engine, missing, done.failure)

"""Searches the domains of specs, in the workers of their engines."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import (
    KINDS,
    SEARCH_S,
    Kind,
    Search,
    SearchAnswer,
    SearchProgress,
    SearchRequest,
    SearchResult,
)
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.devices import require
from gradcheck_cli.engines.registry import Registered, default_engines, engines
from gradcheck_cli.run.finalize import quoted
from gradcheck_cli.run.journal import Journal
from gradcheck_cli.run.plan import (
    DTYPES,
    choose_engines,
    device_notes,
    not_implemented,
    placed,
    placement_for,
)
from gradcheck_cli.run.workers.pool import Pool
from gradcheck_cli.run.workers.task import Done, SoFar, Task
from gradcheck_cli.search.box import domain_of
from gradcheck_cli.specfile.points import at_words

_USUAL = "torch"

NO_DOMAIN = "nothing is searched: no input has a domain"

Place = tuple[str, str]
"""An engine, and a dtype."""


@dataclass(frozen=True, slots=True)
class SearchOptions(RunOptions):
    """`budget` is in seconds for one spec. `drawn`: the results include what pictures show."""

    kinds: tuple[Kind, ...] = KINDS
    drawn: bool = False
    budget: float = SEARCH_S


@dataclass(frozen=True, slots=True)
class _Key:
    spec: int
    place: Place


@dataclass(slots=True)
class _Work:
    """A spec under way: the requests for each place (engine and dtype), and what is known about
    each."""

    spec: Spec
    requests: Mapping[Place, SearchRequest]
    notes: tuple[str, ...]
    recalled: SearchResult | None = None  # from a journal
    placements: Mapping[str, Placement] = field(default_factory=dict)  # by engine
    known: dict[Place, SearchAnswer] = field(default_factory=dict)
    failures: dict[Place, Failure] = field(default_factory=dict)
    waiting: int = 0

    def result(self) -> SearchResult:
        """The result so far."""
        if self.recalled is not None:
            return self.recalled
        searches: list[Search] = []
        fixes = []
        for place, request in self.requests.items():
            answer = self.known.get(place)
            if answer is None:
                searches += undecided(place, request, self.failures.get(place))
                continue
            searches += (_with_command(one, self.spec) for one in answer.searches)
            if answer.fix is not None:
                fixes.append(answer.fix)
        path = self.spec.source.path
        domain = {
            name: (entry.low, entry.high)
            for name, entry in self.spec.inputs.items()
            if math.isfinite(entry.low) or math.isfinite(entry.high)
        }
        lines = [one.line for one in self.known.values() if one.line is not None]
        return SearchResult(
            self.spec.name,
            path,
            tuple(searches),
            self.notes,
            tuple(fixes),
            domain,
            tuple(lines),
        )


def search(
    specs: Sequence[Spec],
    options: SearchOptions,
    hear: Callable[[SearchProgress], None] = lambda progress: None,
) -> Iterator[SearchResult]:
    """The results of the specs, in order. `hear` receives the state of each search under way. After
    KeyboardInterrupt the results known so far follow, and the interrupt is raised again. Raises
    UsageError if an engine, a dtype or a device that was named is not available, and if a domain
    contains no number of the dtype."""
    registered = engines()
    journal = Journal(options.resume, options) if options.resume else None
    works = [_work(spec, options, registered, journal) for spec in specs]
    pool = Pool(options.jobs, options.show_framework_output)
    done = 0
    try:
        for number, work in enumerate(works):
            for task in _tasks(number, work):
                pool.start(task.engine, registered[task.engine].target, task.placement)
                pool.submit(task)
        while done < len(works):
            while works[done].waiting:
                _receive(pool, works, hear)
            done += 1
            work = works[done - 1]
            if journal is not None and work.recalled is None and not work.failures:
                journal.add(work.spec, work.result())  # a failed search may get further
            yield work.result()
        pool.close()
    except KeyboardInterrupt:
        for work in works[done:]:
            yield work.result()
        raise
    finally:
        pool.kill()
        if journal is not None:
            journal.close()


def _work(
    spec: Spec,
    options: SearchOptions,
    registered: Mapping[str, Registered],
    journal: Journal | None,
) -> _Work:
    recalled = None if journal is None else journal.found(spec)
    if isinstance(recalled, SearchResult):
        return _Work(spec, {}, (), recalled)
    requests = requests_of(spec, options, options.kinds, options.budget, registered)
    requests = {place: replace(one, drawn=options.drawn) for place, one in requests.items()}
    if not requests:
        return _Work(spec, requests, (reason_for_none(spec, options, registered),))
    where = placed(spec, options)
    require(where)
    placements = {name: placement_for(registered[name], where) for name, _ in requests}
    there = [name for name, own in placements.items() if own == where]
    return _Work(spec, requests, tuple(device_notes(where, there)), None, placements)


def requests_of(
    spec: Spec,
    options: RunOptions,
    kinds: tuple[Kind, ...],
    budget: float,
    registered: Mapping[str, Registered],
) -> dict[Place, SearchRequest]:
    """The request for each engine and dtype; all share the budget. Raises UsageError."""
    names = _engines_of(spec, options, registered)
    if spec.implementations:
        there = {one.engine for one in spec.implementations}
        names = tuple(name for name in names if name in there)
    dtypes = options.dtypes.resolve(spec.dtypes, DTYPES)
    share = budget / max(len(names) * len(dtypes), 1)
    return {
        (name, dtype): SearchRequest(spec, dtype, kinds, share, options.seed)
        for dtype in dtypes
        if _is_searched(spec, dtype)
        for name in names
    }


def reason_for_none(spec: Spec, options: RunOptions, registered: Mapping[str, Registered]) -> str:
    """Why there is no request."""
    names = _engines_of(spec, options, registered)
    there = {one.engine for one in spec.implementations}
    return not_implemented(spec, names) if there and there.isdisjoint(names) else NO_DOMAIN


def _is_searched(spec: Spec, dtype: str) -> bool:
    """Whether an input has a domain. Raises UsageError if a domain contains no number of the
    dtype."""
    try:
        return domain_of(spec.inputs, dtype) is not None
    except ValueError as error:
        raise UsageError(f"{spec.name}: {error}") from None


def _engines_of(
    spec: Spec, options: RunOptions, registered: Mapping[str, Registered]
) -> tuple[str, ...]:
    """The engines that were named; otherwise PyTorch, or the first available engine."""
    if spec.implementations or options.engines.resolve(spec.engines, ()):
        return choose_engines(spec, options, registered)[0]
    here = [name for name in default_engines(registered) if registered[name].installed]
    return (_USUAL,) if _USUAL in here else tuple(here[:1])


def _tasks(number: int, work: _Work) -> Iterator[Task]:
    for place, request in work.requests.items():
        work.waiting += 1
        key = _Key(number, place)
        yield Task(
            key,
            place[0],
            [request],
            request.limit,
            number,
            math.inf,
            group=key,
            placement=work.placements[place[0]],
            expected=request.budget,
        )


def _receive(pool: Pool, works: Sequence[_Work], hear: Callable[[SearchProgress], None]) -> None:
    """Waits for the next message of a worker."""
    message = pool.results.get()
    if not isinstance(message, Done | SoFar):
        return  # an engine is ready
    key: _Key = message.task.key
    work = works[key.spec]
    if isinstance(message, Done):
        work.waiting -= 1
        pool.forget(key)
        answer = message.answers[0] if message.answers else message.failure
    else:
        answer = message.answer
    if isinstance(answer, SearchAnswer):
        work.known[key.place] = answer
        hear(SearchProgress(work.spec.name, *key.place, answer))
    elif answer is not None:
        work.failures[key.place] = answer


def _with_command(search: Search, spec: Spec) -> Search:
    """The search with the command that shows its witness."""
    if search.witness is None:
        return search
    words = ["--engine", search.engine, "--dtype", search.dtype, "--mode", "reverse"]
    words += at_words(search.witness.values, search.dtype)
    return replace(search, repeat=f"gradcheck run {quoted(spec.source.path)} {shlex.join(words)}")


def undecided(place: Place, request: SearchRequest, failure: Failure | None) -> tuple[Search, ...]:
    """The result of a search that gave no answer."""
    why = "it was interrupted" if failure is None else failure.message
    return tuple(Search(*place, kind, "undecided", why=why) for kind in request.kinds)

"""Searches over the domains of specs: workers answer what each search asks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.checks.protocol import Ask, Steps
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import KINDS, Kind, Search, SearchedFix, SearchResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import Registered, engines, usual
from gradcheck_cli.run.plan import DTYPES, choose_engines
from gradcheck_cli.run.pool import Pool
from gradcheck_cli.run.replies import failed
from gradcheck_cli.run.task import Done, Task
from gradcheck_cli.search.box import domain_of
from gradcheck_cli.search.fixes import best_fix
from gradcheck_cli.search.searching import Searching

BUDGET_S = 10.0
"""For one spec; two engines or dtypes share it."""

_FOR_FIXES = 0.3  # of the budget: for the search of fixes
_TIMEOUT_S = 60.0  # for one question: a batch of a thousand points
_USUAL = "torch"


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`run` has the engines, dtypes and seed; `budget` is in seconds for one spec."""

    run: RunOptions
    kinds: tuple[Kind, ...] = KINDS
    budget: float = BUDGET_S


def search(specs: Sequence[Spec], options: SearchOptions) -> Iterator[SearchResult]:
    """The results of the specs, in their order. Raises UsageError for an engine or a dtype that is
    named and not there, and for a domain without a number of the dtype."""
    registered = engines()
    pool = Pool(show_output=options.run.show_framework_output)
    try:
        for number, spec in enumerate(specs):
            yield _result(spec, number, options, registered, pool)
        pool.close()
    finally:
        pool.kill()


def _result(
    spec: Spec,
    number: int,
    options: SearchOptions,
    registered: Mapping[str, Registered],
    pool: Pool,
) -> SearchResult:
    file = spec.source.path
    if spec.implementations:
        return SearchResult(spec.name, file, (), ("it is about a layer, and has no formula",))
    names = _engines_of(spec, options.run, registered)
    dtypes = options.run.dtypes.resolve(spec.dtypes, DTYPES)
    share = options.budget / max(len(names) * len(dtypes), 1)
    found: list[Search] = []
    fixes: list[SearchedFix | None] = []
    notes: dict[str, None] = {}
    for dtype in dtypes:
        try:
            domain = domain_of(spec.inputs, dtype)
        except ValueError as error:
            raise UsageError(f"{spec.name}: {error}") from None
        if domain is None:
            notes["nothing is searched: no input has a domain"] = None
            continue
        for name in names:
            pool.start(name, registered[name].target)
            searching = Searching(spec, name, domain, options.kinds, share, options.run.seed)
            searches: tuple[Search, ...] = _driven(searching.steps(), pool, number)
            found += searches
            failing = [one.witness for one in searches if one.witness is not None]
            if failing:
                steps = best_fix(
                    spec,
                    name,
                    domain,
                    failing[-1].values,
                    len(failing),
                    share * _FOR_FIXES,
                    options.run.seed,
                )
                fixes.append(_driven(steps, pool, number))
    kept = tuple(fix for fix in fixes if fix is not None)
    return SearchResult(spec.name, file, tuple(found), tuple(notes), kept)


def _engines_of(
    spec: Spec, options: RunOptions, registered: Mapping[str, Registered]
) -> tuple[str, ...]:
    """The engines that are named, else PyTorch, else the first one that is there."""
    if options.engines.resolve(spec.engines, ()):
        return choose_engines(spec, options, registered)[0]
    here = [name for name in usual(registered) if registered[name].installed]
    return (_USUAL,) if _USUAL in here else tuple(here[:1])


def _driven(steps: Steps[Any], pool: Pool, number: int) -> Any:
    answers: list[Any] | None = None  # begins
    while True:
        try:
            asks = steps.send(answers)
        except StopIteration as end:
            return end.value
        answers = _answered(asks, pool, number)


def _answered(asks: Sequence[Ask], pool: Pool, number: int) -> list[Any]:
    """The answers of one engine, and failures in place of those that are missing."""
    engine = asks[0].engine
    assert engine is not None
    questions = [ask.question for ask in asks]
    task = Task(number, engine, questions, _TIMEOUT_S, memory=math.inf, group=number)
    pool.submit(task)
    while not isinstance(done := pool.results.get(), Done):
        pass  # the engine is ready
    missing = questions[len(done.answers) :]
    failures = [failed(engine, question, done.failure) for question in missing]  # type: ignore[arg-type]
    return [*done.answers, *failures]

"""Run a search in the process of its engine, with reports of progress and a search for fixes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.checks.protocol import Ask, Steps, drive
from gradcheck_cli.domain.dtypes import Array, quiet
from gradcheck_cli.domain.fixes import Candidate
from gradcheck_cli.domain.search import KINDS, Search, SearchAnswer, SearchedFix, SearchRequest
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.thresholds import Enough, Seconds
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.explain.fixes.candidates import propose
from gradcheck_cli.search.box import Domain, domain_of
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.estimates import Estimator
from gradcheck_cli.search.layers import layer_searching
from gradcheck_cli.search.probes import probes
from gradcheck_cli.search.runs import BATCH, filled
from gradcheck_cli.search.searching import Searching
from gradcheck_cli.truth.batching import NotBatched, batched
from gradcheck_cli.truth.plain import inlined

FOR_FIXES = 0.3  # part of the budget for the search for fixes
_SAYS_S = 0.25  # seconds between reports of progress
_MOST = 6  # candidates that are searched
_SAME: Enough = 2.0**-20  # part of a number by which two forms of a function may differ in float64
_SELDOM: Enough = 0.25  # part of the points that may differ more, because a formula cancels there


@quiet
def searched(
    engine: Engine,
    request: SearchRequest,
    answer: Callable[[Any], Any],
    so_far: Callable[[SearchAnswer], None],
) -> SearchAnswer:
    """Return the result of a search. `answer` answers its questions; `so_far` gets reports of
    progress."""
    spec, name = request.spec, engine.capabilities.name
    if spec.implementations:
        with layer_searching(engine, request) as layer:
            return _run_search(layer, request, answer, so_far)
    domain = domain_of(spec.inputs, request.dtype)
    assert domain is not None  # the caller has checked this
    searching = Searching(spec, name, domain, request.kinds, request.budget, request.seed)
    found = _run_search(searching, request, answer, so_far)
    failing = [one.witness.values for one in found.searches if one.witness is not None]
    if not failing or not request.fixes:
        return found
    so_far(found)
    allowed = Budget(request.budget * FOR_FIXES, searching.until(1.0))
    steps = best_fix(spec, name, domain, failing, allowed, request.seed, searching.start_took)
    return replace(found, fix=drive(steps, lambda ask: answer(ask.question)))


def _run_search(
    searching: Searching,
    request: SearchRequest,
    answer: Callable[[Any], Any],
    so_far: Callable[[SearchAnswer], None],
) -> SearchAnswer:
    said = time.monotonic()

    def answered(ask: Ask) -> Any:
        nonlocal said
        if time.monotonic() - said > _SAYS_S:
            so_far(searching.so_far())
            said = time.monotonic()
        return answer(ask.question)

    drive(searching.steps(), answered)
    found = searching.so_far()
    if request.drawn:
        line = drive(searching.error_line(), lambda ask: answer(ask.question))
        found = replace(found, line=line)
    return found


def best_fix(
    spec: Spec,
    engine: str,
    domain: Domain,
    witnesses: Sequence[Mapping[str, Array]],
    allowed: Budget,
    seed: int,
    start: Seconds,
) -> Steps[SearchedFix | None]:
    """Return the fix that fails in the fewest kinds; None if none fails in fewer kinds than the
    formula, which has one of `witnesses` for each. All candidates share the time `allowed`, and are
    tried at the witnesses first. None is begun in the last seconds by the clock, as many as the
    `start` of a search took."""
    fails_in, first = len(witnesses), np.stack([domain.point(one) for one in witnesses])
    best: SearchedFix | None = None
    chosen: tuple[Candidate, Searching] | None = None
    values = {**domain.still, **witnesses[-1]}
    tried = 0
    for candidate in propose(rounded(spec.program, domain.dtype), domain.dtype, values, ()):
        if tried == _MOST or allowed.is_spent or allowed.wait <= start:
            break
        if candidate.custom or candidate.kink or not _agree(spec, candidate, domain, seed):
            continue
        tried += 1
        share = max(allowed.left, 0.1) / 2
        fixed = replace(spec, program=candidate.program)
        most = fails_in - 1 if best is None else len(best.found)
        wait = allowed.wait
        searching = Searching(fixed, engine, domain, KINDS, share, seed, most, first, wait)
        yield from searching.look()
        start = max(start, searching.start_took)
        found = searched_fix(candidate.model, candidate.rules, searching.so_far().searches)
        if len(found.found) < fails_in and (best is None or _rank(found) < _rank(best)):
            best, chosen = found, (candidate, searching)
        if best is not None and len(best.proven) == len(KINDS):
            break
    if chosen is None:
        return None
    candidate, searching = chosen
    yield from searching.simplify()
    return searched_fix(candidate.model, candidate.rules, searching.so_far().searches)


def searched_fix(model: str, rules: tuple[str, ...], searches: Sequence[Search]) -> SearchedFix:
    """The results of searches of the domain for the formula `model`, which these rules made."""
    return SearchedFix(
        searches[0].engine,
        searches[0].dtype,
        model,
        rules,
        tuple(one.kind for one in searches if one.verdict == "proven-absent"),
        tuple(one for one in searches if one.verdict == "found"),
    )


def _rank(fix: SearchedFix) -> tuple[int, int]:
    return len(fix.found), -len(fix.proven)


def _agree(spec: Spec, candidate: Candidate, domain: Domain, seed: int) -> bool:
    """Check whether the values of both formulas agree at most probes where both have one."""
    points = probes(domain, (), np.random.default_rng(seed))[:BATCH]
    arrays = domain.arrays(domain.numbers(filled(points, BATCH)))
    try:
        both = [
            Estimator(batched(inlined(program), BATCH), spec.wrt, domain.dtype)
            for program in (spec.program, candidate.program)
        ]
    except NotBatched:
        return False
    still = {
        name: np.broadcast_to(array, (BATCH, *np.shape(array))).copy()
        if np.asarray(array).dtype.kind == "f"
        else array
        for name, array in domain.still.items()
    }
    old, new = (one({**still, **arrays}, BATCH).value for one in both)
    known = np.isfinite(old) & np.isfinite(new)
    apart = np.abs(old - new) > _SAME * np.maximum(np.abs(old), np.abs(new))
    return bool(np.any(known) and np.mean(apart[known]) < _SELDOM)

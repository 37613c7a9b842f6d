"""Fixes that are searched over the same domain: rewrites of the catalogue, and what they do.

`best_fix` takes a spec with a point at which it fails. Each candidate is searched as the formula
itself is; the first in which every kind of failure is proven absent wins, else the one that fails
in the fewest kinds. A candidate that fails in as many kinds as the formula is no fix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.fixes import Candidate
from gradcheck_cli.domain.search import KINDS, Search, SearchedFix
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.thresholds import Enough
from gradcheck_cli.engines.kit.walker import rounded
from gradcheck_cli.explain.fixes.candidates import propose
from gradcheck_cli.search.batching import NotBatched, batched
from gradcheck_cli.search.box import Domain
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.estimates import Estimator
from gradcheck_cli.search.probes import probes
from gradcheck_cli.search.runs import BATCH, filled
from gradcheck_cli.search.searching import Searching
from gradcheck_cli.truth.plain import inlined

_MOST = 6  # candidates that are searched
_SAME: Enough = 2.0**-20  # part of a number: two forms of one function, in float64
_SELDOM: Enough = 0.25  # part of the points: where a formula cancels, float64 has lost digits, too


def best_fix(
    spec: Spec,
    engine: str,
    domain: Domain,
    witnesses: Sequence[Mapping[str, Array]],
    budget: float,
    seed: int,
) -> Steps[SearchedFix | None]:
    """The fix that fails in the fewest kinds, and in fewer than the formula, which has `witnesses`
    of as many; None without one. All candidates share `budget` seconds, and are tried at the
    witnesses first."""
    fails_in, first = len(witnesses), np.stack([domain.point(one) for one in witnesses])
    allowed = Budget(budget)
    best: SearchedFix | None = None
    chosen: tuple[Candidate, Searching] | None = None
    values = {**domain.still, **witnesses[-1]}
    tried = 0
    for candidate in propose(rounded(spec.program, domain.dtype), domain.dtype, values, ()):
        if tried == _MOST or allowed.is_spent:
            break
        if candidate.custom or candidate.kink or not _same(spec, candidate, domain, seed):
            continue
        tried += 1
        share = max(allowed.left, 0.1) / 2
        fixed = replace(spec, program=candidate.program)
        most = fails_in - 1 if best is None else len(best.found)
        searching = Searching(fixed, engine, domain, KINDS, share, seed, most, first)
        yield from searching.looked()
        found = _judged(candidate, searching.so_far().searches)
        if len(found.found) < fails_in and (best is None or _rank(found) < _rank(best)):
            best, chosen = found, (candidate, searching)
        if best is not None and len(best.proven) == len(KINDS):
            break
    if chosen is None:
        return None
    candidate, searching = chosen
    yield from searching.simplify()
    return _judged(candidate, searching.so_far().searches)


def _judged(candidate: Candidate, searches: tuple[Search, ...]) -> SearchedFix:
    return SearchedFix(
        searches[0].engine,
        searches[0].dtype,
        candidate.model,
        candidate.rules,
        tuple(one.kind for one in searches if one.verdict == "proven-absent"),
        tuple(one for one in searches if one.verdict == "found"),
    )


def _rank(fix: SearchedFix) -> tuple[int, int]:
    return len(fix.found), -len(fix.proven)


def _same(spec: Spec, candidate: Candidate, domain: Domain, seed: int) -> bool:
    """Whether the values of both agree at all probes where both have one."""
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
    with np.errstate(all="ignore"):
        known = np.isfinite(old) & np.isfinite(new)
        apart = np.abs(old - new) > _SAME * np.maximum(np.abs(old), np.abs(new))
    return bool(np.any(known) and np.mean(apart[known]) < _SELDOM)

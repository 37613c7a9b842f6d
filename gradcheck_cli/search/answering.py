"""A search in the process of its engine, which says now and then what it knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradcheck_cli.checks.protocol import Ask, drive
from gradcheck_cli.domain.search import SearchAnswer, SearchRequest
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.search.box import domain_of
from gradcheck_cli.search.fixes import best_fix
from gradcheck_cli.search.layers import layer_searching
from gradcheck_cli.search.searching import Searching

FOR_FIXES = 0.3  # of the budget: for the search of fixes
_SAYS_S = 0.25  # for a person who looks on


def searched(
    engine: Engine,
    request: SearchRequest,
    answer: Callable[[Any], Any],
    so_far: Callable[[SearchAnswer], None],
) -> SearchAnswer:
    """What a search finds, where `answer` answers its questions."""
    spec, name = request.spec, engine.capabilities.name
    if spec.implementations:
        with layer_searching(engine, request) as layer:
            return _found(layer, request, answer, so_far)
    domain = domain_of(spec.inputs, request.dtype)
    assert domain is not None  # whoever asks has looked
    searching = Searching(spec, name, domain, request.kinds, request.budget, request.seed)
    found = _found(searching, request, answer, so_far)
    failing = [one.witness.values for one in found.searches if one.witness is not None]
    if not failing or not request.fixes:
        return found
    so_far(found)
    budget = request.budget * FOR_FIXES
    steps = best_fix(spec, name, domain, failing, budget, request.seed)
    return replace(found, fix=drive(steps, lambda ask: answer(ask.question)))


def _found(
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

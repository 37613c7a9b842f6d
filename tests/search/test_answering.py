"""A search where its engine is, and what it says on its way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.search import KINDS, SearchAnswer, SearchedFix, SearchRequest
from gradcheck_cli.domain.wire import decode, encode
from gradcheck_cli.search import answering as answers
from gradcheck_cli.search.answering import best_fix
from gradcheck_cli.search.budget import Budget

from .searched import answer_of, answering, domain_in, reference, spec_of


def test_it_says_what_it_knows_and_searches_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_SAYS_S", 0.0)
    spec = spec_of("{x: {value: 1, domain: [0, 10]}}", "log(exp(x) - 1 + 1)")
    request = SearchRequest(spec, "float16", KINDS, 2.0, 0)
    said: list[SearchAnswer] = []
    found = answers.searched(reference(), request, answer_of, said.append)
    assert all(one.verdict != "proven-absent" for one in said[0].searches)  # nothing was run yet
    assert "found" in [one.verdict for one in found.searches]
    again: Any = decode(encode(found))
    assert [one.verdict for one in again.searches] == [one.verdict for one in found.searches]


@pytest.fixture(autouse=True)
def _faithful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine's rows count as faithful here."""
    monkeypatch.setattr("gradcheck_cli.search.searching.unfaithful", lambda *_: "")


def fix_of(model: str, low: float, high: float) -> SearchedFix | None:
    """The fix of a formula that fails at the upper end, in four kinds."""
    spec = spec_of(f"{{x: {{value: {high / 2}, domain: [{low}, {high}]}}}}", model)
    witness: dict[str, Any] = {"x": np.array(high)}
    steps = best_fix(spec, "reference", domain_in(spec), [witness] * 4, Budget(10.0), 0, 0.0)
    found: SearchedFix | None = answering(steps)
    return found


def test_a_fix_is_proven_over_the_same_domain() -> None:
    found = fix_of("1 / exp(x)", -80.0, 100.0)
    assert found is not None
    assert (found.model, set(found.proven)) == ("exp(-x)", set(KINDS))


def test_without_a_rewrite_there_is_none() -> None:
    assert fix_of("x ** 40", 0.5, 1000.0) is None

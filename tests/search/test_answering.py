"""A search where its engine is, and what it says on its way."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.domain.search import KINDS, SearchAnswer, SearchRequest
from gradcheck_cli.domain.wire import decode, encode
from gradcheck_cli.search import answering

from .searched import answer_of, reference, spec_of


def test_it_says_what_it_knows_and_searches_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_SAYS_S", 0.0)
    spec = spec_of("{x: {value: 1, domain: [0, 10]}}", "log(exp(x) - 1 + 1)")
    request = SearchRequest(spec, "float16", KINDS, 2.0, 0)
    said: list[SearchAnswer] = []
    found = answering.searched(reference(), request, answer_of, said.append)
    assert all(one.verdict != "proven-absent" for one in said[0].searches)  # nothing was run yet
    assert "found" in [one.verdict for one in found.searches]
    again: Any = decode(encode(found))
    assert [one.verdict for one in again.searches] == [one.verdict for one in found.searches]

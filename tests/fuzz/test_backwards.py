"""Wrong backwards: a few of them in every run of the tests, and what the fuzzer must see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gradcheck_cli.domain.report import SpecResult
from tests.fuzz.backwards import RULES, Backwards, Planted
from tests.fuzz.running import Runner

INPUTS = {"a": [0.5, 2.0], "b": [1.5, 1.0]}


def test_mistakes_are_found_and_right_backwards_are_not_accused(runner: Runner) -> None:
    with Backwards(runner, ("torch",)) as backwards:
        found = list(backwards.check(20, range(10)))
    assert [finding.says for finding in found] == []
    assert backwards.counted["planted, and plain to see"] > 5


def test_a_mistake_that_is_not_reported_is_a_miss(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Runner.results

    def silent(self: Runner, texts: Iterable[str], *rest: Any) -> list[SpecResult]:
        return [replace(result, findings=()) for result in results(self, texts, *rest)]

    monkeypatch.setattr(Runner, "results", silent)
    with Backwards(runner, ("torch",)) as backwards:
        found = list(backwards.check(20, range(3)))
    assert found
    assert all("missed: reference" in finding.says for finding in found)


@pytest.mark.parametrize(
    ("slopes", "outer", "visible"),
    [
        ({"a": "b", "b": "a"}, "{}", set()),
        ({"a": "-b", "b": "a"}, "{}", {"a"}),
        ({"a": "b", "b": "a * 1.01"}, "sum({})", {"b"}),
        ({"a": "b", "b": "a * 1.01"}, "({}) * 0", set()),
    ],
)
def test_what_is_plain_to_see(slopes: dict[str, str], outer: str, visible: set[str]) -> None:
    product = next(rule for rule in RULES if rule.forward == "a * b")
    assert Planted(product, slopes, "", outer, INPUTS, "torch").visible("float64") == visible

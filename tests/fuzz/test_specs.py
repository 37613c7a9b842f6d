"""Damaged specs: a few of them in every run of the tests, and what the fuzzer must see."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli import specfile
from tests.fuzz.specs import Specs, _lacking


def test_no_damage_is_an_internal_error() -> None:
    with Specs() as specs:
        found = list(specs.check(20, [*range(60), *range(60, 600, 12)]))
    assert [finding.says for finding in found] == []
    assert specs.counted["right"] > 5
    assert specs.counted["with mistakes"] > 20
    assert specs.counted["run"] > 0


def test_an_exception_of_the_reader_is_found_and_made_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = specfile.read

    def broken(path: str, text: str | None = None, **keywords: Any) -> Any:
        if text is not None and "sum" in text:
            raise OverflowError("planted")
        return read(path, text, **keywords)

    monkeypatch.setattr(specfile, "read", broken)
    with Specs() as specs:
        found = list(specs.check(20, range(30)))
    assert found
    assert all("OverflowError: planted" in finding.says for finding in found)
    assert min(len(finding.text) for finding in found) < 60


def test_a_mistake_without_a_place_is_found() -> None:
    _, (mistake,) = specfile.read("input.yaml", "inputs: {x: 1}\nmodel: nothing(x)\n")
    assert _lacking(mistake, "inputs: {x: 1}\nmodel: nothing(x)\n") == ""
    assert "at line 2" in _lacking(mistake, "")

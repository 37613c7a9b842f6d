"""Odd layers: a few in every run of the tests, and what the fuzzer must see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gradcheck_cli.domain.codes import CODES
from tests.fuzz.oddities import FRAMEWORKS, Odd, Oddities, fault_of, layers
from tests.fuzz.running import Runner


def test_every_framework_has_right_and_wrong_layers_and_each_expects_known_codes() -> None:
    for framework in FRAMEWORKS:
        mine = [odd for odd in layers() if odd.framework == framework]
        assert sum(not odd.codes for odd in mine) >= 10
        assert sum(bool(odd.codes) for odd in mine) >= 15
        assert len({odd.name for odd in mine}) == len(mine)
    assert {code for odd in layers() for code in odd.codes} <= CODES.keys()


def test_a_few_layers_have_the_verdict_that_they_deserve(runner: Runner) -> None:
    with Oddities(runner, ("torch",)) as oddities:
        assert [finding.says for finding in oddities.check(20, range(8))] == []
    assert oddities.counted["torch, wrong"] > 1
    assert oddities.counted["torch, right"] > 1


@pytest.mark.parametrize(
    ("codes", "found", "says"),
    [
        ((), (), ""),
        ((), ("GC101",), "it is right, and is accused"),
        (("GC101",), ("GC101",), ""),
        (("GC101", "GC102"), ("GC102", "GC605"), ""),
        (("GC101",), (), "it is wrong, and passes"),
        (("GC102",), ("GC701",), "another word is expected"),
    ],
)
def test_a_verdict_that_is_not_deserved_is_found(
    codes: tuple[str, ...], found: tuple[str, ...], says: str
) -> None:
    told = [SimpleNamespace(code=code, message="words", severity="error") for code in found]
    result: Any = SimpleNamespace(findings=told, checks=[object()])
    assert fault_of(Odd("torch", "f", codes, (), ("x",)), result).startswith(says)
    assert bool(says) == bool(fault_of(Odd("torch", "f", codes, (), ("x",)), result))

"""The benchmark of what is replaced in frameworks: every part is measured with it and without it,
and one that gains too little is missed. Runs of the two kinds are what `make plain` compares."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def replacements(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, which finds what it shares with others in its own folder."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("replacements")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, replacements: ModuleType) -> dict[str, float]:
    """What a run takes that leaves a part out, by part; 1 s with all of them."""
    against = sys.modules["against"]
    slower = dict.fromkeys(replacements.REPLACED, 1.25)

    def spent(work: Any, variables: Mapping[str, str], _: Path) -> Any:
        part = variables.get(replacements.SWITCH)
        assert part in (None, work.what)
        specs, option, engine = work.arguments
        assert Path(specs).exists()
        assert (option, engine) == ("--engine", replacements.REPLACED[work.what])
        return against.Spent(slower[part] if part else 1.0, evaluations=1)

    monkeypatch.setattr(against, "spent", spent)
    monkeypatch.setattr(sys, "argv", ["replacements.py", "--count", "2", "--repeats", "1"])
    return slower


def test_the_gain_of_every_part_is_printed(
    replacements: ModuleType, runs: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replacements.main() == 0
    _, *lines = capsys.readouterr().out.splitlines()
    names = [
        (part, what) for part in runs for what in ("one formula", "2 formulas", "a training path")
    ]
    for line, (part, what) in zip(lines, names, strict=True):
        assert re.fullmatch(rf"{part} +{what} +1\.00s +1\.25s +20\.0%", line)


def test_a_part_that_gains_too_little_is_missed(
    replacements: ModuleType, runs: dict[str, float]
) -> None:
    runs[replacements.COMPILER] = 1.04
    assert replacements.main() == 1

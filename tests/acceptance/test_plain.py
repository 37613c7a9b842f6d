"""The planted bugs are found, and frameworks of which nothing is replaced lead to the same verdicts
(`make plain` compares them for any specs)."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradcheck_cli.engines.kit.startup import SWITCH
from tests.acceptance.conftest import EXAMPLES, LAYERS, PLANTED, ROOT, Run, run_of
from tests.cli.calling import Screen


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, which finds what it shares with others in its own folder."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("verdicts")


def test_every_planted_bug_is_found(self_test: tuple[Screen, dict[str, Any]]) -> None:
    screen, _ = self_test
    assert screen.code == 0, screen.out + screen.err
    assert ", 0 wrong, 0 not run" in screen.err


@pytest.mark.exhaustive
def test_verdicts_are_those_of_frameworks_as_they_are(
    verdicts: ModuleType,
    self_test: tuple[Screen, dict[str, Any]],
    examples: Run,
    layers: Run,
    tmp_path: Path,
) -> None:
    assert verdicts.SAMPLE[:2] == [EXAMPLES, PLANTED]
    assert {str(Path(path).parent) for path in verdicts.SAMPLE[2:]} == {LAYERS}
    plain = run_of(tmp_path, "run", *verdicts.SAMPLE, **{SWITCH: "1"}).report
    ordinary = {
        **verdicts.verdicts(self_test[1]),
        **verdicts.verdicts(of_engines_of(plain, layers.report)),
        **verdicts.verdicts(of_engines_of(plain, examples.report)),
    }
    apart = list(verdicts.differences(ordinary, verdicts.verdicts(plain)))
    assert apart == []


def of_engines_of(plain: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """A report of more engines and specs, with what a report of fewer has."""
    kept = []
    for less in plain["results"]:
        for result in report["results"]:
            if (result["path"], result["spec"]) == (less["path"], less["spec"]):
                engines = {None, *(check["engine"] for check in less["checks"])}
                parts = {
                    part: [one for one in result[part] if one["engine"] in engines]
                    for part in ("checks", "findings")
                }
                failed = any(check["status"] != "passed" for check in parts["checks"])
                status = "failed" if failed else "passed"
                kept.append({**result, **parts, "status": status})
    return {**report, "results": kept}

"""`--repro`: scripts are run before they are offered."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gradcheck_cli.cli import repro
from gradcheck_cli.cli.repro import NotShown, Scripts, write
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import SpecFinished
from gradcheck_cli.domain.report import SpecResult
from tests.conftest import spec_of
from tests.report.repro.cases import FINDING

SPEC = spec_of("x ** 3", {"x": [1.0, 2.0]})
SHOWS = "print('computed: 0.0')\nraise SystemExit(1)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('computed: 12.0')\nraise SystemExit(1)", "computed: 12.0"),
        ("print('computed: 0.0')", "computed: 0.0"),
        ("raise ValueError('no such module')", "ValueError: no such module"),
    ],
)
def test_a_script_that_does_not_show_its_finding_is_not_left(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradcheck_cli.report.repro.script.script", lambda *_: text)
    with pytest.raises(NotShown, match=why):
        write(FINDING, SPEC, tmp_path / "repro.py", seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_has_a_script_for_each_finding_and_says_why_others_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gradcheck_cli.report.repro.script.script", lambda *_: SHOWS)
    scripts = Scripts(str(tmp_path / "new" / "folder"), seed=0)
    assert list(scripts.record([SPEC])) == [SPEC]
    forward = replace(FINDING, mode="forward", point=2)
    others = (replace(FINDING, engine=None), forward, replace(FINDING, message="other entries"))
    result = SpecResult(SPEC.name, SPEC.source, "failed", findings=(FINDING, *others))
    scripts.hear(SpecFinished(result))
    monkeypatch.setattr(repro, "LIMIT_S", 60.0)
    scripts.end()
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        f"{SPEC.name}-torch-float64-forward-x-point2-GC101.py",
        f"{SPEC.name}-torch-float64-reverse-x-GC101-2.py",
        f"{SPEC.name}-torch-float64-reverse-x-GC101.py",
    ]
    assert "3 scripts were run, and each shows its finding" in capsys.readouterr().err


def test_no_script_is_left_that_was_not_seen_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[Path] = []

    def interrupted(path: Path, is_cpp: bool) -> None:
        begun.append(path)
        time.sleep(0.2)
        raise KeyboardInterrupt

    monkeypatch.setattr("gradcheck_cli.report.repro.script.script", lambda *_: SHOWS)
    monkeypatch.setattr(repro, "_run", interrupted)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    scripts = Scripts(str(tmp_path), seed=0)
    assert list(scripts.record([SPEC])) == [SPEC]
    several = tuple(replace(FINDING, point=point) for point in range(100))
    scripts.hear(SpecFinished(SpecResult(SPEC.name, SPEC.source, "failed", findings=several)))
    with pytest.raises(KeyboardInterrupt):
        scripts.end()
    assert 0 < len(begun) < 100
    assert list(tmp_path.iterdir()) == []
    assert "running 100 scripts" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the folder"):
        Scripts(str(tmp_path / "file"), seed=0)


def test_one_reason_is_given_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = Scripts(str(tmp_path), seed=0)
    assert list(scripts.record([SPEC])) == [SPEC]
    several = tuple(replace(FINDING, engine="symbolic", point=point) for point in range(5))
    scripts.hear(SpecFinished(SpecResult(SPEC.name, SPEC.source, "failed", findings=several)))
    scripts.end()
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "there are scripts" in line)
    assert "point2-GC101.py and 2 more: " in line

"""What was finished is not run again."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import Finished, Notice, SpecFinished
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.report import Report
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.session import run

Read = Callable[[str], Spec]

pytestmark = pytest.mark.usefixtures("forked")


def _options(tmp_path: Path, *engines: str, **settings: object) -> RunOptions:
    names = Layered(override=engines or ("reference",))
    return RunOptions(engines=names, resume=str(tmp_path / "journal"), **settings)  # type: ignore[arg-type]


def _report(specs: list[Spec], options: RunOptions) -> Report:
    *_, last = run(specs, options)
    assert isinstance(last, Finished)
    return last.report


def _lines(tmp_path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]


def _specs(spec: Read) -> list[Spec]:
    return [
        spec(f"name: s{number}\ninputs: {{x: {number}.5}}\nmodel: 1 / exp(100 * x)\n")
        for number in range(3)
    ]


def _lasting(report: Report) -> list[object]:
    return [(one.spec, one.status, repr(one.findings), len(one.checks)) for one in report.results]


def test_a_run_on_a_full_disk_goes_on_without_a_journal(
    spec: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    specs, options = _specs(spec), _options(tmp_path)
    events = list(run(specs, options))
    assert len([event for event in events if isinstance(event, SpecFinished)]) == len(specs)
    (told,) = (event.text for event in events if isinstance(event, Notice))
    assert "journal: No space left on device; the run goes on" in told


def test_a_run_that_was_killed_goes_on(spec: Read, tmp_path: Path) -> None:
    specs, options = _specs(spec), _options(tmp_path)
    events = run(specs, options)
    while not isinstance(next(events), SpecFinished):
        pass
    events.close()  # type: ignore[attr-defined]
    journal = tmp_path / "journal"
    finished = {line["spec"] for line in _lines(tmp_path)}
    assert "s0" in finished
    journal.write_bytes(journal.read_bytes() + b'{"key": "cut o')
    again = _report(specs, options)
    assert {one.spec for one in again.results if one.cached} == finished
    plain = RunOptions(engines=options.engines)
    assert _lasting(again) == _lasting(_report(specs, plain))
    assert again.engines == {"reference": again.version}
    whole = _report(specs, options)
    assert [one.cached for one in whole.results] == [True] * 3


def test_what_has_changed_runs_again(spec: Read, tmp_path: Path) -> None:
    (one, *_), options = _specs(spec), _options(tmp_path)
    _report([one], options)
    other = _options(tmp_path, dtypes=Layered(override=("float32",)))
    assert [result.cached for result in _report([one], other).results] == [False]
    assert [result.cached for result in _report([one], options).results] == [True]
    assert len(_lines(tmp_path)) == 2


def test_what_another_run_may_not_find_runs_again(
    spec: Read, tmp_path: Path, fakes: dict[str, str]
) -> None:
    assert "segfault" in fakes
    options = _options(tmp_path, "segfault")
    (result,) = _report([spec("inputs: {bad: 2.0}\nmodel: bad ** 2\n")], options).results
    assert result.status == "failed"
    assert _lines(tmp_path) == []


def test_a_journal_that_cannot_be_written_is_an_error(spec: Read, tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with pytest.raises(UsageError, match="--resume: cannot open"):
        run(_specs(spec), _options(tmp_path))

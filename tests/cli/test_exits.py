import os
import sys
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import click
import pytest

from gradcheck_cli.cli import exits
from gradcheck_cli.domain.errors import Interrupted, Stopped, UsageError
from gradcheck_cli.domain.report import Report
from tests.report import samples

PASSING = samples.report(samples.quadratic())
FAILING = samples.report(samples.quadratic(), samples.reciprocal_exp())
WARNING = samples.report(
    replace(
        samples.quadratic(),
        findings=(replace(samples.nan_finding("torch"), code="GC501", severity="warning"),),
    )
)
ALLOWED = samples.report(
    replace(
        samples.reciprocal_exp(),
        status="passed",
        findings=(replace(samples.nan_finding("torch"), allowed=True, reason="known"),),
    )
)
BAD_SPEC = samples.report(samples.quadratic(), errors=(samples.spec_error(),))
BAD_MODEL = samples.report(  # which only the layer beside it could tell
    replace(
        samples.reciprocal_exp(),
        findings=(replace(samples.nan_finding("torch"), code="GC905"),),
    )
)
NOTHING = samples.report()


@pytest.mark.parametrize(
    ("report", "fail_on", "exit_zero", "code"),
    [
        (PASSING, "error", False, 0),
        (samples.report(samples.trained()), "error", False, 0),
        (samples.report(samples.relu_kink()), "warning", False, 0),
        (FAILING, "error", False, 1),
        (FAILING, "error", True, 0),
        (WARNING, "error", False, 0),
        (WARNING, "warning", False, 1),
        (WARNING, "warning", True, 0),
        (ALLOWED, "warning", False, 0),
        (BAD_SPEC, "error", False, 2),
        (BAD_SPEC, "error", True, 2),
        (BAD_MODEL, "error", True, 2),
        (NOTHING, "error", False, 5),
        (NOTHING, "error", True, 5),
        (replace(FAILING, interrupted=True), "error", False, 130),
        (replace(PASSING, interrupted=True), "error", True, 130),
        (replace(PASSING, interrupted=True, signal=15), "error", True, 143),
    ],
)
def test_the_code_that_a_report_deserves(
    report: Report, fail_on: str, exit_zero: bool, code: int
) -> None:
    assert exits.verdict(report, fail_on, exit_zero) == code


def raised_from(cause: BaseException) -> Exception:
    """What a library makes of an exception that struck in it."""
    error = SystemError("an error")
    error.__cause__ = RuntimeError("in between")
    error.__cause__.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("no such engine", "pip install it"), 2, "error: no such engine\nhelp: pip"),
        (click.UsageError("what?"), 2, "error: what?"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (Stopped(1), 129, "error: interrupted"),
        (Interrupted("stopped"), 130, "error: stopped"),
        (ZeroDivisionError("by zero"), 3, "error: ZeroDivisionError: by zero"),
        (raised_from(KeyboardInterrupt()), 130, "error: interrupted"),
        (raised_from(Stopped(15)), 143, "error: interrupted"),
        (raised_from(ValueError()), 3, "error: SystemError: an error"),
    ],
)
def test_every_error_has_its_code_and_its_words(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    @click.option("-v", is_flag=True)
    def app(v: bool) -> None:
        raise error

    assert exits.guarded(app, []) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_an_internal_error_asks_for_a_report_with_versions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    @click.option("-v", is_flag=True)
    def app(v: bool) -> None:
        raise RuntimeError("gone wrong")

    assert exits.guarded(app, ["-v"]) == 3
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "Please report it" in text
    for name in ("gradcheck", "Python", "numpy", "click"):
        assert name in text


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be deleted")
def test_a_deleted_working_folder_is_not_our_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    @click.command()
    def app() -> None:
        os.path.abspath("here")

    with chdir(gone):
        gone.rmdir()
        assert exits.guarded(app, []) == 2
    assert "the working folder was deleted" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silenced = []
    monkeypatch.setattr(exits, "silence", silenced.append)

    @click.command()
    def app() -> None:
        raise BrokenPipeError

    assert exits.guarded(app, []) == 0
    assert silenced == [sys.stdout]
    assert capsys.readouterr().err == ""

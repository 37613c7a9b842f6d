"""Signals: one of them in every run of the tests, and what the fuzzer must see."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.fuzz.signals import Signals


@pytest.mark.exhaustive
def test_an_interrupted_run_ends_as_it_should() -> None:
    assert Signals().faults(signal.SIGINT, True, 0.1) == []


@pytest.mark.parametrize(
    ("code", "out", "err", "report", "told"),
    [
        (130, "ok\n", "", '{"summary": {}}', []),
        (0, "ok\n", "", '{"summary": {}}', []),
        (-2, "", "", "", []),
        (-2, "ok\n", "", "", ["exit code -2"]),
        (3, "ok\n", "no", "", ["exit code 3"]),
        (1, "", "Traceback (most recent call last): zipimport", "", []),
        (130, "ok\n", "Traceback (most recent call last): zipimport", "", ["a traceback"]),
        (-2, "", "Traceback: gradcheck_cli/cli", "", ["exit code -2", "a traceback"]),
        (130, "ok\n", "", '{"summ', ["the report is broken"]),
    ],
)
def test_a_bad_ending_is_found(
    tmp_path: Path, code: int, out: str, err: str, report: str, told: list[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(report, "utf-8")
    faults = list(Signals()._ending(signal.SIGINT, code, out, err, path))
    assert len(faults) == len(told)
    assert all(fault.startswith(start) for fault, start in zip(faults, told, strict=True))

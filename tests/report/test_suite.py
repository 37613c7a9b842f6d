"""Tables of what a suite found."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import Source
from gradcheck_cli.domain.report import Finding, SpecResult

from . import samples
from .writing import written


def result(name: str, *findings: Finding) -> SpecResult:
    source = Source(f"torch-ops/{name.partition('[')[0]}", name)
    return SpecResult(name, source, "passed", samples.checks(), findings)


def test_operations_are_counted_by_what_was_found() -> None:
    wrong = samples.nan_finding("torch")
    kink = replace(wrong, code=Codes.KINK, severity="note")
    refused = replace(wrong, code=Codes.UNSUPPORTED_OPERATION, message="no a | b", severity="error")
    report = samples.report(
        result("exp[0]"),
        result("exp[1]"),
        result("abs[0]", kink),
        result("log[0]"),
        result("log[2]", wrong, replace(wrong, mode="forward"), refused),
    )
    report = replace(report, errors=(), suite="torch-ops", refused={"any": "no derivative"})
    lines = written("suite", report).splitlines()
    assert lines[2:] == [
        "| found | operations | samples |",
        "|---|---:|---:|",
        "| passed | 2 | 4 |",
        "| GC201 nan-gradient | 1 | 1 |",
        "| refused: GC705 unsupported-operation | 1 | 1 |",
        "| not run | 1 | |",
        "",
        "| operation | samples | found | |",
        "|---|---|---|---|",
        "| `log` | 2 | GC201 nan-gradient | torch float32 reverse, torch float32 forward: "
        "the gradient is nan, and the truth is a number |",
        "| `log` | 2 | refused: GC705 unsupported-operation | torch float32 reverse: no a \\| b |",
        "",
        "| not run, because | operations |",
        "|---|---|",
        "| no derivative | 1: `any` |",
    ]

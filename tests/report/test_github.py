from __future__ import annotations

from dataclasses import replace

from . import samples
from .writing import written


def test_an_annotation_stands_at_the_cause_with_its_fix() -> None:
    finding = replace(samples.nan_finding("torch"), fix=samples.tried_fix())
    text = written("github", samples.report(replace(samples.reciprocal_exp(), findings=(finding,))))
    assert text.splitlines() == [
        "::error file=specs/reciprocal_exp.yaml,line=6,endLine=6,col=12,endColumn=18,"
        "title=error[GC201] nan-gradient%3A reciprocal_exp::torch float32 reverse: "
        "the gradient is nan, and the truth is a number%0A"
        "overflows float32: exp(100) = 2.69e+43 > 3.40e+38%0Awrite exp(-x)",
        "gradcheck: 1 spec: 0 passed, 1 failed; GC201 nan-gradient 1; 3.21 s",
    ]


def test_at_most_ten_of_a_severity() -> None:
    report = samples.many(12)
    report = replace(report, results=(*report.results, samples.relu_kink()))
    lines = written("github", report).splitlines()
    assert [line.split()[0] for line in lines] == [
        *["::error"] * 10,
        "and",
        "::notice",
        "gradcheck:",
    ]
    assert lines[10] == "and 2 more places with errors"


def test_what_a_spec_allows_is_counted_alone_and_so_are_notes_of_a_quiet_report() -> None:
    allowed = replace(samples.nan_finding("torch"), allowed=True, reason="known")
    report = samples.report(
        replace(samples.reciprocal_exp(), status="passed", findings=(allowed,)), samples.relu_kink()
    )
    (line,) = written("github", report, quiet=True).splitlines()
    assert line == "gradcheck: 2 specs: 2 passed; GC401 kink 3; 1 allowed; 3.21 s"

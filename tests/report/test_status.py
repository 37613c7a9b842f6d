"""The line of a spec, from a report that was made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradcheck_cli.domain.report import Pass, SpecResult
from gradcheck_cli.report.status import status_lines
from gradcheck_cli.report.style import Style
from tests.report import samples


def lines(result: SpecResult, **style: Any) -> list[str]:
    return [line.plain for line in status_lines(result, Style(**{"width": 120, **style}))]


def with_finding(severity: str, **fields: Any) -> SpecResult:
    found = replace(samples.nan_finding("torch"), severity=severity, **fields)
    return replace(samples.quadratic(), findings=(found,))


def without(*codes: str) -> SpecResult:
    """A spec of which findings were left out."""
    found = samples.nan_finding("torch")
    suppressed = (replace(found, code=code, reason="--ignore GC") for code in codes)
    return replace(samples.quadratic(), suppressed=tuple(suppressed))


def test_a_passing_spec_is_one_line_with_its_error_and_its_extent() -> None:
    assert lines(samples.quadratic()) == [
        "ok    quadratic  worst error 0 ulp  "
        "reference, torch, tensorflow; float32, float64; reverse"
    ]


def test_an_extent_that_does_not_fit_is_counted() -> None:
    assert lines(samples.quadratic(), width=80) == [
        "ok    quadratic  worst error 0 ulp  3 engines, 2 dtypes"
    ]


def test_what_does_not_fit_at_all_goes_below_the_name() -> None:
    head, *below = lines(samples.quadratic(), width=40)
    assert head == "ok    quadratic"
    assert " ".join(" ".join(below).split()) == (
        "worst error 0 ulp reference, torch, tensorflow; float32, float64; reverse"
    )
    assert all(len(line) <= 40 for line in below)


@pytest.mark.parametrize(
    ("result", "mark"),
    [
        (samples.quadratic(), "ok"),
        (with_finding("note"), "ok"),
        (with_finding("warning"), "warn"),
        (with_finding("warning", allowed=True), "known"),
        (replace(samples.quadratic(), status="failed"), "FAIL"),
        (replace(samples.quadratic(), status="error"), "ERROR"),
        (replace(samples.quadratic(), checks=()), "none"),
        (without("GC101", "GC101"), "part"),
        (without("GC401", "GC401"), "ok"),
    ],
)
def test_the_mark_is_the_worst_of_what_counts(result: SpecResult, mark: str) -> None:
    assert lines(result)[0].split()[0] == mark


def test_a_failing_spec_says_how_many_checks_failed_and_shows_no_values() -> None:
    good, *_ = samples.checks()
    bad = replace(
        samples.quadratic(), status="failed", checks=(good, replace(good, status="failed"))
    )
    (line,) = lines(bad)
    assert "1 of 2 checks failed" in line
    assert "z = 11" not in line


@pytest.mark.parametrize(
    ("code", "what"), [("GC701", "could not run"), ("GC903", "could not run"), ("GC103", "failed")]
)
def test_only_checks_whose_layer_ran_fail(code: str, what: str) -> None:
    good, *_ = samples.checks()
    bad = replace(with_finding("error", code=code), status="failed")
    result = replace(bad, checks=(replace(good, status="error"),))
    assert f"1 of 1 checks {what}" in lines(result)[0]


def test_what_was_set_aside_is_counted() -> None:
    allowed = with_finding("error", allowed=True)
    suppressed = without("GC301", "GC101", "GC301").suppressed
    shown = lines(replace(allowed, suppressed=suppressed))
    assert any("1 allowed, 3 ignored (GC101, GC301)" in line for line in shown)


def test_nothing_that_was_checked_is_no_pass() -> None:
    nothing = replace(samples.quadratic(), checks=())
    assert "nothing was checked: there is no gradient" in lines(nothing)[0]
    head, note = lines(replace(nothing, notes=("it has no inputs",)))
    assert head.endswith("nothing was checked")
    assert "it has no inputs" in note


@pytest.mark.parametrize(("rule", "said"), [("flushed", "passed by rule: flushed"), ("kink", "")])
def test_a_rule_is_named_where_no_finding_speaks_of_it(rule: str, said: str) -> None:
    (check, *_) = samples.checks()
    passed = replace(check, passed_by=(Pass(rule, 1, None),))
    (line,) = lines(replace(samples.quadratic(), checks=(passed,)))
    assert ("passed by rule" in line) == bool(said)
    assert said in line


@pytest.mark.parametrize(("rule", "said"), [("rounding", True), ("few digits", False)])
def test_rounding_is_named_where_it_took_many_digits(rule: str, said: bool) -> None:
    (check, *_) = samples.checks()
    passed = replace(check, passed_by=(Pass(rule, 1, 4000.0),))
    (line,) = lines(replace(samples.quadratic(), checks=(passed,)))
    assert ("relative, explained by rounding" in line) == said


def test_v_shows_every_number_and_every_rule() -> None:
    (check, *_) = samples.checks()
    passed = replace(check, passed_by=(Pass("few digits", 2, 5.0),))
    shown = lines(replace(samples.quadratic(), checks=(passed,)), verbose=True)
    assert "      torch float64 reverse" in shown
    assert any("passed by rule" in line for line in shown)
    assert any("few digits:" in line and "2 entries, worst:" in line for line in shown)

from dataclasses import replace

from gradcheck_cli.report.summary import finding_counts, summary_line

from . import samples


def test_the_closing_line_counts_everything() -> None:
    assert summary_line(samples.everything()).plain == (
        "5 specs: 3 passed, 2 failed; 1 mistake in spec files; GC101 wrong-gradient 3, "
        "GC201 nan-gradient 2, GC401 kink 3; 3.21 s"
    )


def test_codes_are_in_order() -> None:
    assert list(finding_counts(samples.everything())) == ["GC101", "GC201", "GC401"]


def test_what_does_not_count_is_counted() -> None:
    allowed = replace(samples.reciprocal_exp().findings[0], allowed=True)
    reasons = ("--ignore GC2", "baseline known.json", "--ignore GC2")
    suppressed = tuple(replace(allowed, allowed=False, reason=reason) for reason in reasons)
    result = replace(samples.quadratic(), findings=(allowed,), suppressed=suppressed)
    line = summary_line(samples.report(result)).plain
    known = "1 finding known by the baseline known.json"
    left_out = replace(samples.report(result), unchanged=4)
    assert "; 4 left out, unchanged; " in summary_line(left_out).plain
    assert f"; 1 allowed; 2 findings ignored by --ignore GC2; {known}; " in line

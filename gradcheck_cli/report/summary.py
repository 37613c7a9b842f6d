"""The last line of a run, and the counts behind it."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report.blocks import code_name
from gradcheck_cli.report.numbers import seconds
from gradcheck_cli.report.style import plain


def finding_counts(report: Report) -> dict[str, int]:
    """Findings by code, without those that specs allow."""
    counts = Counter(
        finding.code
        for result in report.results
        for finding in result.findings
        if not finding.allowed
    )
    return dict(sorted(counts.items()))


def suppressed_counts(report: Report) -> dict[str, int]:
    """The number of findings that do not count, by reason: "--ignore GC2", "baseline
    known.json"."""
    findings = (finding for result in report.results for finding in result.suppressed)
    return dict(sorted(Counter(finding.reason for finding in findings).items()))


def set_aside_words(report: Report) -> list[str]:
    """The findings that do not count, and the specs that were left out."""
    words = uncounted_words(report)
    if report.unchanged:
        words.append(f"{report.unchanged} left out, unchanged")
    if report.elsewhere:
        noun = "operation" if report.suite else "spec"
        noun += "" if report.elsewhere == 1 else "s"
        words.append(f"{report.elsewhere} {noun} in other shards")
    return words


def uncounted_words(report: Report) -> list[str]:
    """The findings that do not count: "8 findings ignored by --ignore GC201", "1 allowed"."""
    allowed = allowed_count(report)
    words = [f"{allowed} allowed"] if allowed else []
    for reason, count in suppressed_counts(report).items():
        noun = "finding" if count == 1 else "findings"
        known = reason.startswith("baseline ")
        words.append(f"{count} {noun} {'known by the' if known else 'ignored by'} {reason}")
    return words


def ignored_counts(report: Report) -> dict[str, int]:
    """Findings by code that do not count."""
    counts: Counter[str] = Counter()
    for result in report.results:
        counts.update(result.ignored)
    return dict(sorted(counts.items()))


def allowed_count(report: Report) -> int:
    """The number of findings that specs allow."""
    return sum(result.allowed for result in report.results)


def status_count(report: Report, status: str) -> int:
    return sum(result.status == status for result in report.results)


def summary_line(report: Report) -> Text:
    """`13 specs: 9 passed, 4 failed; 2 errors in specs; GC201 x4, GC302 x2; 3.2 s`."""
    specs = len(report.results)
    none = sum(result.unchecked for result in report.results)
    parts = [(f"{status_count(report, 'passed') - none} passed", "bold green")]
    if none:
        parts.append((f"{none} without a check", "bold yellow"))
    for status, word, style in (("failed", "failed", "bold red"), ("error", "broke", "bold red")):
        if status_count(report, status):
            parts.append((f"{status_count(report, status)} {word}", style))
    line = Text(f"{specs} {'spec' if specs == 1 else 'specs'}: ")
    for position, (words, style) in enumerate(parts):
        line.append(", " if position else "").append(words, style=style)
    if report.errors:
        noun = "mistake" if len(report.errors) == 1 else "mistakes"
        line.append("; ").append(f"{len(report.errors)} {noun} in spec files", style="bold red")
    if report.interrupted:
        line.append("; ").append("interrupted", style="bold red")
    counts = finding_counts(report)
    if counts:
        told = ", ".join(f"{code} {code_name(code)} {number}" for code, number in counts.items())
        line.append(f"; {told}")
    for words in set_aside_words(report):
        line.append("; ").append(plain(words), style="bold yellow")
    cached = sum(result.cached for result in report.results)
    if cached:
        line.append(f"; {cached} from the cache")
    return line.append(f"; {seconds(report.duration_s)}")

"""Markdown tables of the results of a suite: counts, and a row for each finding about an
operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gradcheck_cli.domain.codes import ENGINE_FAILED, Codes
from gradcheck_cli.domain.report import Finding, Report, SpecError, SpecResult
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import code_name
from gradcheck_cli.report.markdown import code
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import summary_line

_PASSED = "passed"
_UNCHECKED = "nothing to check"


class Writer(ReportWriter):
    """Counts, then a row for each operation and each of its findings."""

    def finish(self, report: Report) -> None:
        by_operation = _by_operation(report.results)
        lines = [
            summary_line(report).plain,
            "",
            "| found | operations | samples |",
            "|---|---:|---:|",
            *_counts(by_operation, report),
        ]
        rows = [*_rows(by_operation), *(_mistake(error) for error in report.errors)]
        if rows:
            lines += ["", "| operation | samples | found | |", "|---|---|---|---|", *rows]
        if report.refused:
            lines += ["", "| not run, because | operations |", "|---|---|", *_refused_rows(report)]
        self._stream.write("\n".join(lines) + "\n")


def _by_operation(results: Sequence[SpecResult]) -> Mapping[str, Sequence[SpecResult]]:
    """The results of the samples of each operation, by the name of the operation."""
    grouped = groupby(results, lambda result: result.spec.rpartition("[")[0] or result.spec)
    return {op: tuple(samples) for op, samples in grouped}


def _words(result: SpecResult) -> dict[str, list[Finding]]:
    """What was found at one sample, without notes, and the findings that say so."""
    words: dict[str, list[Finding]] = {}
    for finding in result.findings:
        if finding.severity != "note" and not finding.allowed:
            words.setdefault(_word(finding.code), []).append(finding)
    return words or {_UNCHECKED if result.unchecked else _PASSED: []}


def _word(code: str) -> str:
    kind = "refused: " if code == Codes.UNSUPPORTED_OPERATION else ""
    kind = "error: " if code in ENGINE_FAILED else kind
    return f"{kind}{code} {code_name(code)}"


def _counts(found: Mapping[str, Sequence[SpecResult]], report: Report) -> Iterator[str]:
    """For each outcome, the number of operations with such a sample, and the number of samples.
    "passed" counts operations with no other outcome."""
    operations: dict[str, set[str]] = {}
    samples: dict[str, int] = {}
    for op, results in found.items():
        words = [word for result in results for word in _words(result)]
        for word in words:
            samples[word] = samples.get(word, 0) + 1
            if word != _PASSED or set(words) == {_PASSED}:
                operations.setdefault(word, set()).add(op)
    for word in sorted(samples, key=lambda word: (word != _PASSED, word)):
        yield f"| {word} | {len(operations.get(word, ()))} | {samples[word]} |"
    if report.refused:
        yield f"| not run | {len(report.refused)} | |"


def _rows(found: Mapping[str, Sequence[SpecResult]]) -> Iterator[str]:
    for op, results in found.items():
        seen: dict[str, list[Finding]] = {}
        places: dict[str, list[str]] = {}
        for result in results:
            for word, findings in _words(result).items():
                seen.setdefault(word, []).extend(findings)
                places.setdefault(word, []).append(result.spec.rpartition("[")[2].rstrip("]"))
        for word, findings in seen.items():
            if not findings:
                continue
            which = _in_a_cell(", ".join(places[word]))
            yield f"| {code(op)} | {which} | {word} | {_message_and_places(findings)} |"


def _message_and_places(findings: Sequence[Finding]) -> str:
    """The first message, and the places of this and similar findings."""
    told: dict[str, dict[str, None]] = {}
    for finding in findings:
        where = " ".join(filter(None, (finding.engine, finding.dtype, finding.mode)))
        told.setdefault(where, {})[finding.message] = None
    return _in_a_cell(f"{', '.join(filter(None, told))}: {findings[0].message}")


def _mistake(error: SpecError) -> str:
    told = "; ".join(filter(None, (error.message, error.help)))
    return f"| {code(error.path)} | | {error.code} | {_in_a_cell(told)} |"


def _in_a_cell(text: str) -> str:
    return plain(text).replace("|", "\\|")


def _refused_rows(report: Report) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for op, reason in report.refused.items():
        reasons.setdefault(reason, []).append(code(op))
    for reason, ops in reasons.items():
        yield f"| {_in_a_cell(reason)} | {len(ops)}: {', '.join(ops)} |"

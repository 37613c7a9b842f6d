"""The full report on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from rich.text import Text

from gradcheck_cli.domain.codes import Codes, Families
from gradcheck_cli.domain.report import Finding, Report, SpecResult
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import error_block, finding_block, finding_in_brief
from gradcheck_cli.report.console import make_console, print_lines
from gradcheck_cli.report.groups import grouped
from gradcheck_cli.report.status import status_lines
from gradcheck_cli.report.style import DIM, Style
from gradcheck_cli.report.summary import summary_line


class Writer(ReportWriter):
    """Writes each spec when it is finished, then the mistakes in files, then the summary."""

    def __init__(self, stream: TextIO, style: Style) -> None:
        super().__init__(stream, style)
        self._console = make_console(stream, style)
        self._room_above = True  # an empty line, or nothing at all
        self._notes: set[str] = set()

    def spec(self, result: SpecResult) -> None:
        groups = self._groups(result)
        if not groups and self._style.quiet:
            return
        brief = [] if self._style.verbose else [g for g in groups if _fits_one_line(g, groups)]
        blocks = [group for group in groups if group not in brief]
        lines = status_lines(self._with_new_notes(result), self._style)
        for group in brief:
            lines += finding_in_brief(group, result, self._style)
        self._paragraph(lines, apart=bool(blocks))
        for group in blocks:
            self._paragraph(finding_block(group, result, self._style), apart=True)

    def finish(self, report: Report) -> None:
        for error in report.errors:
            self._paragraph(error_block(error, self._style), apart=True)
        if self._style.verbose:
            engines = "".join(f"; {name} {version}" for name, version in report.engines.items())
            told = f"gradcheck {report.version}{engines}; seed {report.seed}"
            self._paragraph([Text(told, style=DIM)], apart=False)
        summary = summary_line(report).wrap(self._console, self._style.width)
        self._paragraph(list(summary), apart=False)

    def _with_new_notes(self, result: SpecResult) -> SpecResult:
        """The result without notes that an earlier spec had, for example that there is no forward
        mode."""
        if self._style.verbose or result.unchecked:
            return result
        notes = tuple(note for note in result.notes if note not in self._notes)
        self._notes.update(notes)
        return replace(result, notes=notes)

    def _groups(self, result: SpecResult) -> Sequence[tuple[Finding, ...]]:
        if self._style.verbose:
            return [(finding,) for finding in result.findings]
        groups = grouped(result.findings)
        if self._style.quiet:
            return [g for g in groups if g[0].severity != "note" and not g[0].allowed]
        return groups

    def _paragraph(self, lines: list[Text], apart: bool) -> None:
        """Prints `lines`, separated by empty lines from the text before and after if `apart`."""
        before = [Text()] if apart and not self._room_above else []
        after = [Text()] if apart else []
        print_lines(self._stream, self._style, [*before, *lines, *after])
        self._room_above = apart


def _fits_one_line(group: Sequence[Finding], groups: Sequence[Sequence[Finding]]) -> bool:
    """Whether one line is enough: for notes, for accepted findings, and for consequences of an
    output that is not a number, such as a missing derivative, or a gradient that the same operation
    spoils."""
    first = group[0]
    if first.severity == "note" or first.allowed:
        return True
    outputs = [g[0] for g in groups if g[0].code == Codes.NON_FINITE_OUTPUT and g[0] is not first]
    return any(
        first.point == output.point
        and (
            first.code == Codes.UNDEFINED_DERIVATIVE
            or (_spoils(output) is not None and _spoils(first) == _spoils(output))
        )
        for output in outputs
        if not output.allowed
    )


def _spoils(finding: Finding) -> tuple[object, ...] | None:
    """The operation to blame for a value or a gradient that is not finite."""
    cause = finding.cause
    if cause is None or cause.span is None or not finding.code.startswith(Families.NOT_FINITE):
        return None
    return (cause.op, cause.span, cause.source)

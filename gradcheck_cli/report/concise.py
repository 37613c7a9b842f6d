"""One line per finding, and a summary, for editors, logs and grep."""

from __future__ import annotations

from gradcheck_cli.domain.report import Finding, Report, SpecError, SpecResult
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import finding_place, point_words, title
from gradcheck_cli.report.entries import entry_label
from gradcheck_cli.report.fixes import short_fix
from gradcheck_cli.report.numbers import depth
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import summary_line
from gradcheck_cli.report.window import place


class Writer(ReportWriter):
    """`path:line:column: severity[CODE] name engine dtype mode input[index] message`."""

    def spec(self, result: SpecResult) -> None:
        for finding in result.findings:
            if self._style.quiet and (finding.severity == "note" or finding.allowed):
                continue
            self._line(_finding_line(finding, result))

    def finish(self, report: Report) -> None:
        for error in report.errors:
            self._line(_error_line(error))
        self._line(summary_line(report).plain)

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")


def _finding_line(finding: Finding, result: SpecResult) -> str:
    source, span = finding_place(finding, result)
    where = place(source.path, span)
    axes = depth(result.readings[0].output) if result.readings else 0
    index = finding.entries[0].index if finding.entries else ()
    label = (
        entry_label(finding, index, result.output_name, axes) if finding.entries else finding.input
    )
    words = (
        title(finding.code, finding.severity),
        finding.engine,
        finding.dtype,
        finding.mode,
        point_words(finding),
        label,
    )
    told = " ".join(plain(word) for word in words if word)
    message = " ".join(finding.message.split())
    cause = f" (cause: {finding.cause.kind}, {plain(finding.cause.op)})" if finding.cause else ""
    fix = f" (fix: {plain(short_fix(finding))})" if short_fix(finding) else ""
    allowed = f" (allowed: {plain(finding.reason)})" if finding.allowed else ""
    return f"{where}: {told} {plain(message)}{cause}{fix}{allowed}"


def _error_line(error: SpecError) -> str:
    message = plain(" ".join(error.message.split()))
    help = f" (help: {plain(' '.join(error.help.split()))})" if error.help else ""
    return f"{place(error.path, error.span)}: {title(error.code, 'error')} {message}{help}"

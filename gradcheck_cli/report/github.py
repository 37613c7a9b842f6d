"""GitHub's annotations: workflow commands in the log of a job.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import title
from gradcheck_cli.report.problems import WORST_FIRST, Problem, problems
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import summary_line

SHOWN = 10  # of a kind: GitHub drops what a step has more
_KIND = {"error": "error", "warning": "warning", "note": "notice"}


class Writer(ReportWriter):
    """The worst problems of each severity, each at its place, and the summary. Accepted findings
    are only counted in the summary; so are notes of a quiet report."""

    def finish(self, report: Report) -> None:
        found = [problem for problem in problems(report) if not problem.allowed]
        for severity in WORST_FIRST:
            mine = [problem for problem in found if problem.severity == severity]
            if severity == "note" and self._style.quiet:
                continue
            for problem in mine[:SHOWN]:
                self._stream.write(_command(problem) + "\n")
            if len(mine) > SHOWN:
                what = "place" if len(mine) == SHOWN + 1 else "places"
                self._stream.write(f"and {len(mine) - SHOWN} more {what} with {severity}s\n")
        self._stream.write(f"gradcheck: {summary_line(report).plain}\n")


def _command(problem: Problem) -> str:
    heading = title(problem.code, problem.severity)
    place: dict[str, object] = {}
    if problem.path is not None:
        place["file"] = plain(problem.path)
        if problem.span is not None:
            place |= {"line": problem.span.line, "endLine": problem.span.end_line}
            if problem.span.line == problem.span.end_line:  # GitHub knows no others
                place |= {"col": problem.span.column, "endColumn": problem.span.end_column}
    place["title"] = f"{heading}: {problem.spec}" if problem.spec else heading
    text = f"{problem.who}: {problem.message}" if problem.who else problem.message
    return f"::{_KIND[problem.severity]} {_properties(place)}::{_data(text)}"


def _properties(values: Mapping[str, object]) -> str:
    escaped = {
        name: _data(str(value)).replace(":", "%3A").replace(",", "%2C")
        for name, value in values.items()
    }
    return ",".join(f"{name}={value}" for name, value in escaped.items())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

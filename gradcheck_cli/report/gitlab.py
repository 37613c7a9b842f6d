"""GitLab's code quality report, which merge requests show.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import json
from typing import Any

from gradcheck_cli.domain.codes import Severity
from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import title
from gradcheck_cli.report.json_report import encodable
from gradcheck_cli.report.problems import Problem, in_repository, problems
from gradcheck_cli.report.style import plain
from gradcheck_cli.report.summary import uncounted_words

_SEVERITY = {"error": "critical", "warning": "minor", "note": "info"}


class Writer(ReportWriter):
    """One list: an entry for each problem with a place in a file, and one entry that counts
    accepted findings and those that options leave out. Specs from standard input have no place."""

    def finish(self, report: Report) -> None:
        entries = [_degradation(p, p.path) for p in problems(report) if p.path and not p.allowed]
        paths = (in_repository(result.source.path) for result in report.results)
        path = next(filter(None, paths), None)
        if (words := "; ".join(map(plain, uncounted_words(report)))) and path:
            entries.append(_entry(words, "gradcheck", words, "note", path, 1))
        self._stream.write(json.dumps(encodable(entries), indent=2) + "\n")


def _degradation(problem: Problem, path: str) -> dict[str, Any]:
    heading = title(problem.code, problem.severity)
    about = " ".join(part for part in (heading, problem.spec, problem.who) if part)
    line = problem.span.line if problem.span else 1
    words = f"{about}: {problem.message}"
    return _entry(words, problem.code, problem.fingerprint, problem.severity, path, line)


def _entry(
    description: str, check: str, fingerprint: str, severity: Severity, path: str, line: int
) -> dict[str, Any]:
    return {
        "description": description,
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": _SEVERITY[severity],
        "location": {"path": path, "lines": {"begin": line}},
    }

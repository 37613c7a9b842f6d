"""GitLab's code quality report, which merge requests show.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import json
from typing import Any

from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import title
from gradcheck_cli.report.json_report import encodable
from gradcheck_cli.report.problems import Problem, problems

_SEVERITY = {"error": "critical", "warning": "minor", "note": "info"}


class Writer(ReportWriter):
    """One list: what is at a place of a file. What a spec allows, and what was read from standard
    input, has no place in it."""

    def finish(self, report: Report) -> None:
        found = [_degradation(p, p.path) for p in problems(report) if p.path and not p.allowed]
        self._stream.write(json.dumps(encodable(found), indent=2) + "\n")


def _degradation(problem: Problem, path: str) -> dict[str, Any]:
    heading = title(problem.code, problem.severity)
    about = " ".join(part for part in (heading, problem.spec, problem.who) if part)
    return {
        "description": f"{about}: {problem.message}",
        "check_name": problem.code,
        "fingerprint": problem.fingerprint,
        "severity": _SEVERITY[problem.severity],
        "location": {"path": path, "lines": {"begin": problem.span.line if problem.span else 1}},
    }

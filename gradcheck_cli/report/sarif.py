"""SARIF 2.1.0, which code scanning of GitHub and other services reads.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.report import Report
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.json_report import encodable, run_as_json
from gradcheck_cli.report.pages import page
from gradcheck_cli.report.problems import Problem, problems

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"  # what paths are relative to


class Writer(ReportWriter):
    """One log of one run: the codes that were found as rules, with their pages as help, and a
    result for each problem. Problems that a spec allows are suppressed results."""

    def finish(self, report: Report) -> None:
        log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]}
        self._stream.write(json.dumps(encodable(log), indent=2) + "\n")


def _run(report: Report) -> dict[str, Any]:
    shown = problems(report)
    codes = sorted({problem.code for problem in shown})
    facts = run_as_json(report)
    return {
        "tool": {
            "driver": {
                "name": "gradcheck",
                "version": report.version,
                "rules": [_rule(code) for code in codes],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not report.interrupted,
                "commandLine": report.command,
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, codes.index(problem.code)) for problem in shown],
        "properties": {name: facts[name] for name in ("seed", "summary", "tool")},
    }


def _rule(code: str) -> dict[str, Any]:
    row = CODES[code]
    text = page(row)
    return {
        "id": code,
        "name": row.name,
        "shortDescription": {"text": row.summary},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": row.severity},
    }


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    who = f"{problem.spec}, {problem.who}: " if problem.spec else ""
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": problem.severity,
        "message": {"text": f"{who}{problem.message}"},
        "locations": [_location(problem)],
        "partialFingerprints": {"gradcheck/v1": problem.fingerprint},
        "occurrenceCount": max(len(problem.findings), 1),
        "properties": {"screen": problem.block},
    }
    if problem.allowed:
        result["suppressions"] = [{"kind": "inSource", "justification": problem.allowed}]
    return result


def _location(problem: Problem) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if problem.path is not None:
        place: dict[str, Any] = {"artifactLocation": _artifact(problem.path)}
        if problem.span is not None:
            place["region"] = {
                "startLine": problem.span.line,
                "startColumn": problem.span.column,
                "endLine": problem.span.end_line,
                "endColumn": problem.span.end_column,
            }
        location["physicalLocation"] = place
    if problem.spec:
        location["logicalLocations"] = [{"name": problem.spec}]
    return location


def _artifact(path: str) -> dict[str, str]:
    if path.startswith("/"):
        return {"uri": f"file://{quote(path, errors='surrogateescape')}"}
    return {"uri": quote(path, errors="backslashreplace"), "uriBaseId": ROOT}

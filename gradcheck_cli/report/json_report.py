"""The JSON report: a contract, described by `gradcheck schema report`."""

from __future__ import annotations

import json
import math
import signal
import textwrap
from collections.abc import Mapping
from typing import Any

from gradcheck_cli.domain.place import Place, Source
from gradcheck_cli.domain.report import (
    Accepted,
    Cause,
    Check,
    Entry,
    Finding,
    Fix,
    Report,
    SpecError,
    SpecResult,
)
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import code_name
from gradcheck_cli.report.schema import (
    SCHEMA_VERSION,
    Schema,
    accepted_schema,
    cause_schema,
    check_schema,
    error_schema,
    finding_schema,
    fix_schema,
    result_schema,
)
from gradcheck_cli.report.search_json import fix_as_json, region_as_json
from gradcheck_cli.report.summary import (
    allowed_count,
    finding_counts,
    ignored_counts,
    status_count,
    suppressed_counts,
)

_OF_THE_WORST = (
    *("computed", "truth", "truth_error", "ulps"),
    *("finite_difference", "finite_difference_error"),
)
"""Keys of a finding that are about its worst entry."""


class Writer(ReportWriter):
    """One object, written at the end of the run."""

    def finish(self, report: Report) -> None:
        from gradcheck_cli.report import merging  # with NumPy, which the schema does not need

        run = run_as_json(report)
        if report.shard:
            run |= merging.of_report(report)
        head = _indented(run).removesuffix("\n}")
        self._stream.write(f'{head},\n  "results": [')
        separator = ""
        for result in report.results:
            whole = result_as_json(result)
            if report.shard:
                whole |= merging.of_result(result)
            body = textwrap.indent(_indented(whole), "    ")
            self._stream.write(f"{separator}\n{body}")
            separator = ","
        self._stream.write("\n  ]\n}\n" if separator else "]\n}\n")


def _indented(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, allow_nan=False)


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain lists and dictionaries that JSON can represent."""
    results = [result_as_json(result) for result in report.results]
    return {**run_as_json(report), "results": results}


def run_as_json(report: Report) -> dict[str, Any]:
    """The report without its results."""
    whole = {
        "schema_version": SCHEMA_VERSION,
        "tool": {
            "name": "gradcheck",
            "version": report.version,
            "engines": dict(report.engines),
        },
        "seed": report.seed,
        "fail_on": report.fail_on,
        "duration_s": _number(report.duration_s),
        "interrupted": report.interrupted,
        "signal": signal.Signals(report.signal).name if report.interrupted else None,
        "summary": {
            "specs": len(report.results),
            "passed": status_count(report, "passed"),
            "failed": status_count(report, "failed"),
            "errors": status_count(report, "error") + len(report.errors),
            "checks": sum(len(result.checks) for result in report.results),
            "findings": finding_counts(report),
            "allowed": allowed_count(report),
            "ignored": ignored_counts(report),
            "suppressed": suppressed_counts(report),
            "unchanged": report.unchanged,
        },
        "errors": [_error(error) for error in report.errors],
    }
    if report.suite:
        whole |= {"suite": report.suite, "refused": dict(report.refused)}
    return {key: encodable(value) for key, value in whole.items()}


def encodable(value: Any) -> Any:
    """The value with texts that UTF-8 can represent. File names may be arbitrary bytes, and many
    JSON readers refuse a report because of a single half character."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-8", errors="backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [encodable(one) for one in value]
    if isinstance(value, dict):
        return {encodable(key): encodable(one) for key, one in value.items()}
    return value


def result_as_json(result: SpecResult) -> dict[str, Any]:
    """An element of `results`."""
    source = result.source
    whole = _object(
        result_schema(),
        result,
        path=source.path,
        checks=[_check(check) for check in result.checks],
        findings=[_finding(finding, source) for finding in result.findings],
        suppressed=[_finding(finding, source) for finding in result.suppressed],
        by_design=[_accepted(one) for one in result.by_design],
    )
    return {key: encodable(value) for key, value in whole.items()}


def _accepted(one: Accepted) -> dict[str, Any]:
    return _object(accepted_schema(), one, function=one.function or None, detach=one.detach or None)


def _check(check: Check) -> dict[str, Any]:
    keys = check_schema()["properties"]
    passes = [_object(keys["passed_by"]["items"], one) for one in check.passed_by]
    evaluations = _object(keys["evaluations"], check)
    return _object(check_schema(), check, passed_by=passes, evaluations=evaluations)


def _finding(finding: Finding, source: Source) -> dict[str, Any]:
    worst = finding.worst or Entry((), None)
    return _object(
        finding_schema(),
        finding,
        **{key: _as_json(getattr(worst, key)) for key in _OF_THE_WORST},
        name=code_name(finding.code),
        at=list(finding.at) or None,
        region=None if finding.search is None else region_as_json(finding.search.region),
        index=list(worst.index) if finding.entries else None,
        cause=_cause(finding.cause, source),
        stage=finding.stage or None,
        fix=_fix(finding.fix),
        no_fix=finding.no_fix or None,
        location=_location(finding.place or Place(source, finding.span, "")),
        reason=finding.reason or None,
    )


def _fix(fix: Fix | None) -> dict[str, Any] | None:
    if fix is None:
        return None
    return _object(
        fix_schema(),
        fix,
        custom_gradient=fix.custom,
        location=None if fix.place is None else _location(fix.place),
        points={"tried": fix.points, "right": fix.right},
        searched=None if fix.searched is None else fix_as_json(fix.searched),
    )


def _location(place: Place) -> dict[str, Any]:
    return {"path": place.source.path, "line": place.span.line, "column": place.span.column}


def _cause(cause: Cause | None, source: Source) -> dict[str, Any] | None:
    if cause is None:
        return None
    return _object(
        cause_schema(),
        cause,
        path=(cause.source or source).path,
        line=cause.span.line,
        column=cause.span.column,
        repaired_ulps=_number(cause.repaired),
    )


def _error(error: SpecError) -> dict[str, Any]:
    return _object(
        error_schema(),
        error,
        line=error.span.line if error.span else None,
        column=error.span.column if error.span else None,
    )


def _object(schema: Schema, value: Any, **others: Any) -> dict[str, Any]:
    """The keys of an object of the schema: those in `others`, and the attributes with the names of
    the other keys."""
    return {
        key: others[key] if key in others else _as_json(getattr(value, key))
        for key in schema["required"]
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _number(value: float | None) -> float | str | None:
    """A number; nan and infinity are strings, because JSON has no literals for them."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")

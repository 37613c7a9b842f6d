"""The JSON report: a contract, described by `gradcheck schema report`."""

from __future__ import annotations

import json
import math
import signal
import textwrap
from typing import Any

from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import (
    Accepted,
    Cause,
    Check,
    Finding,
    Fix,
    Report,
    SpecError,
    SpecResult,
)
from gradcheck_cli.report import ReportWriter
from gradcheck_cli.report.blocks import code_name
from gradcheck_cli.report.search_json import fix_as_json, region_as_json
from gradcheck_cli.report.summary import (
    allowed_count,
    finding_counts,
    ignored_counts,
    status_count,
    suppressed_counts,
)

SCHEMA_VERSION = 1


class Writer(ReportWriter):
    """One object, written when the run is over."""

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
    """The report as plain lists and dictionaries, with nothing in it that JSON cannot say."""
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
    """With texts that UTF-8 can hold: a file's name may be any bytes, and many readers of JSON
    refuse a whole report for half a character."""
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
    whole = {
        "spec": result.spec,
        "path": result.source.path,
        "status": result.status,
        "checks": [_check(check) for check in result.checks],
        "findings": [_finding(finding, result) for finding in result.findings],
        "ignored": dict(result.ignored),
        "suppressed": [_finding(finding, result) for finding in result.suppressed],
        "unmatched_allows": list(result.unmatched_allows),
        "by_design": [_accepted(one) for one in result.by_design],
        "duration_s": _number(result.duration_s),
        "compile_s": dict(result.compile_s),
        "cached": result.cached,
    }
    return {key: encodable(value) for key, value in whole.items()}


def _accepted(one: Accepted) -> dict[str, Any]:
    return {
        "engine": one.engine,
        "function": one.function or None,
        "detach": one.detach or None,
        "surrogate": one.surrogate,
        "reason": one.reason,
        "line": one.line,
        "calls": one.calls,
        "places": list(one.places),
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "engine": check.engine,
        "dtype": check.dtype,
        "mode": check.mode,
        "input": check.input,
        "point": check.point,
        "status": check.status,
        "max_ulps": _number(check.max_ulps),
        "passed_by": [
            {"rule": one.rule, "entries": one.entries, "ulps": _number(one.ulps)}
            for one in check.passed_by
        ],
        "truth": check.truth,
        "truth_error_ulps": _number(check.truth_error_ulps),
        "caught": _number(check.caught),
        "power": _number(check.power),
        "evaluations": {
            "forward": check.forward,
            "backward": check.backward,
            "batched": check.batched,
            "looped": check.looped,
        },
        "duration_s": _number(check.duration_s),
    }


def _finding(finding: Finding, result: SpecResult) -> dict[str, Any]:
    worst = finding.entries[0] if finding.entries else None
    place = finding.place
    return {
        "code": finding.code,
        "name": code_name(finding.code),
        "severity": finding.severity,
        "engine": finding.engine,
        "dtype": finding.dtype,
        "mode": finding.mode,
        "input": finding.input,
        "point": finding.point,
        "at": list(finding.at) or None,
        "region": None if finding.search is None else region_as_json(finding.search.region),
        "index": list(worst.index) if worst else None,
        "message": finding.message,
        "computed": _number(worst.computed) if worst else None,
        "truth": _number(worst.truth) if worst else None,
        "truth_error": _number(worst.truth_error) if worst else None,
        "finite_difference": _number(worst.finite_difference) if worst else None,
        "finite_difference_error": _number(worst.finite_difference_error) if worst else None,
        "ulps": _number(worst.ulps) if worst else None,
        "cause": _cause(finding.cause, result.source.path),
        "stage": finding.stage or None,
        "pattern": finding.pattern,
        "fix": _fix(finding.fix),
        "no_fix": finding.no_fix or None,
        "location": {
            "path": (place.source if place else result.source).path,
            "line": (place or finding).span.line,
            "column": (place or finding).span.column,
        },
        "fingerprint": finding.fingerprint,
        "repeat": finding.repeat,
        "allowed": finding.allowed,
        "reason": finding.reason or None,
    }


def _fix(fix: Fix | None) -> dict[str, Any] | None:
    if fix is None:
        return None
    return {
        "before": fix.before,
        "after": fix.after,
        "ulps_before": _number(fix.ulps_before),
        "ulps_after": _number(fix.ulps_after),
        "code": dict(fix.code),
        "value": _number(fix.value),
        "model": fix.model,
        "rules": list(fix.rules),
        "condition": fix.condition,
        "kink": fix.kink,
        "custom_gradient": fix.custom,
        "location": None if fix.place is None else _location(fix.place),
        "points": {"tried": fix.points, "right": fix.right},
        "searched": None if fix.searched is None else fix_as_json(fix.searched),
    }


def _location(place: Place) -> dict[str, Any]:
    span = place.span
    return {"path": place.source.path, "line": span.line, "column": span.column}


def _cause(cause: Cause | None, path: str) -> dict[str, Any] | None:
    if cause is None:
        return None
    return {
        "op": cause.op,
        "phase": cause.phase,
        "path": path if cause.source is None else cause.source.path,
        "line": cause.span.line,
        "column": cause.span.column,
        "detail": cause.detail,
        "kind": cause.kind,
        "engine_op": cause.engine_op,
        "proven": cause.proven,
        "proof": cause.proof,
        "repaired_ulps": _number(cause.repaired),
    }


def _error(error: SpecError) -> dict[str, Any]:
    return {
        "code": error.code,
        "path": error.path,
        "line": error.span.line if error.span else None,
        "column": error.span.column if error.span else None,
        "message": error.message,
    }


def _number(value: float | None) -> float | str | None:
    """JSON has no literal for nan and the infinities: they are strings."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")

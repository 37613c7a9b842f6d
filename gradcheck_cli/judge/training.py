"""Judge training paths: every engine must end where the reference engine ends, up to rounding."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import TrainingCase
from gradcheck_cli.domain.codes import CODES, Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Training
from gradcheck_cli.domain.report import SHOWN_ENTRIES, Check, Entry, Finding, Pass
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK
from gradcheck_cli.judge.failures import CODES_OF_FAILURES

MODE = "training"


def judge_training(case: TrainingCase) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
    """Return a check for each engine and parameter, and GC101 where a path leaves the reference
    path in float64.

    A path may differ by the effect of rounding, which is measured: the largest distance between the
    reference engine's own paths in this dtype and in float64, plus one rounding a step.
    """
    checks: list[Check] = []
    findings: list[Finding] = []
    for path in case.paths:
        for name in case.problem.parameters:
            check, finding = _judge_parameter(case, path, name)
            checks.append(check)
            if finding is not None and (path.failure is None or name == case.problem.parameters[0]):
                findings.append(finding)
    return tuple(checks), tuple(findings)


def _check(case: TrainingCase, path: Training, name: str, status: str, ulps: float | None) -> Check:
    passed_by = (Pass("path", 1, ulps),) if status == "passed" and ulps != 0 else ()
    return Check(
        engine=path.engine,
        dtype=case.dtype,
        mode=MODE,
        input=name,
        status=status,  # type: ignore[arg-type]
        max_ulps=ulps,
        passed_by=passed_by,
        truth="reference-path" if case.exact and not case.exact.failure else "undecided",
        forward=case.problem.steps + 1,
        backward=case.problem.steps,
        duration_s=path.duration_s,
    )


def _judge_parameter(case: TrainingCase, path: Training, name: str) -> tuple[Check, Finding | None]:
    if path.failure is not None:
        code = CODES_OF_FAILURES[path.failure.kind]
        found = _finding(case, path, name, code, path.failure.message, (), path.failure.detail)
        return _check(case, path, name, "error", None), found
    exact, near = case.exact, case.calibration
    if exact is None or near is None or exact.failure or near.failure:
        message = "undecided: the reference engine did not finish its own training path"
        return _check(case, path, name, "passed", None), _finding(
            case, path, name, Codes.UNDECIDED, message
        )
    fmt = FORMATS[case.dtype]
    truth, mine = exact.parameters[name], path.parameters[name]
    last = mine[-1]
    by_rounding = np.max(np.abs(near.parameters[name] - truth), axis=0)
    size = np.max(np.abs(truth), axis=0)
    steps = case.problem.steps
    allowed = FIRST_ORDER_SLACK * (by_rounding + steps * fmt.unit_roundoff * size)
    error = np.abs(last - truth[-1])
    ulps = np.asarray(error / fmt.ulp(truth[-1]))
    bad = ~(error <= allowed)
    worst = float(np.max(ulps)) if np.all(np.isfinite(ulps)) else None
    if not np.any(bad):
        return _check(case, path, name, "passed", worst), None
    entries = _entries(bad, last, truth[-1], ulps)
    first = int(
        np.argmax(np.any(~(np.abs(mine - truth) <= allowed).reshape(len(mine), -1), axis=1))
    )
    message = f"`{name}` leaves the reference path at step {first} of {steps}"
    return _check(case, path, name, "failed", worst), _finding(
        case, path, name, Codes.WRONG_GRADIENT, message, entries
    )


def _entries(bad: Array, last: Array, truth: Array, ulps: Array) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            index=tuple(int(i) for i in place),
            computed=float(last[tuple(place)]),
            truth=float(truth[tuple(place)]),
            ulps=float(ulps[tuple(place)]),
        )
        for place in np.argwhere(bad)[:SHOWN_ENTRIES]
    )


def _finding(
    case: TrainingCase,
    path: Training,
    name: str,
    code: str,
    message: str,
    entries: tuple[Entry, ...] = (),
    detail: str = "",
) -> Finding:
    return Finding(
        code=code,
        severity=CODES[code].severity,
        message=message,
        span=case.spec.program.result.span,
        engine=path.engine,
        dtype=case.dtype,
        mode=MODE,
        input=name,
        entries=entries,
        truth_source="reference-path",
        detail=detail,
    )

"""A layer that gave no answer, as checks and findings."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.judge.failures import CODES_OF_FAILURES


def with_failure(problem: LayerProblem, answer: LayerAnswer) -> LayerAnswer:
    """The answer; where it failed, with a finding that says so and a check for each input."""
    failure = answer.failure
    if failure is None:
        return answer
    spec, engine = problem.spec, problem.implementation.engine
    point = problem.point if spec.pointed else None
    code = CODES_OF_FAILURES[failure.kind]
    what = "its behaviour was checked: " if problem.behaviour else ""
    found = Finding(
        code=code,
        severity="error" if code == "GC705" and problem.named else CODES[code].severity,
        message=f"while {what}{failure.message}" if what else failure.message,
        span=problem.implementation.span,
        engine=engine,
        dtype=problem.dtype,
        point=point,
        detail=failure.detail,
    )
    checks = tuple(
        Check(engine, problem.dtype, mode, name, "error", point)
        for mode in problem.modes[:1]
        for name in spec.points[problem.point]
        if not problem.behaviour
    )
    return replace(answer, checks=(*answer.checks, *checks), findings=(*answer.findings, found))

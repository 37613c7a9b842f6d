"""Findings about a layer."""

from __future__ import annotations

from gradcheck_cli.domain.codes import CODES, Severity
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import Finding


def finding_for(
    problem: LayerProblem,
    code: str,
    message: str,
    *,
    severity: Severity | None = None,
    dtype: str | None = None,
    mode: Mode | None = None,
    input: str | None = None,
    detail: str = "",
    place: Place | None = None,
) -> Finding:
    """A finding about the implementation of a problem, at its line of the spec. `severity` is that
    of the code unless given; what is found about its behaviour has no dtype."""
    return Finding(
        code=code,
        severity=severity or CODES[code].severity,
        message=message,
        span=problem.implementation.span,
        engine=problem.implementation.engine,
        dtype=dtype,
        mode=mode,
        input=input,
        point=problem.point if problem.spec.pointed else None,
        detail=detail,
        place=place,
    )

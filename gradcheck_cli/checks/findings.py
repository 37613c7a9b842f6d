"""Make findings about a layer, and report mistakes of a spec that show only when its layer is
known; they count as mistakes found in the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import CODES, Codes, Severity
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.engines.errors import SpecMistake
from gradcheck_cli.formula import FormulaError


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
    other_run: OtherRun | None = None,
) -> Finding:
    """A finding about the implementation of a problem, at its line of the spec. `severity` defaults
    to the severity of the code; findings about behaviour have no `dtype`."""
    return Finding(
        code=code,
        severity=severity or CODES[code].severity,
        message=message,
        span=problem.implementation.span,
        engine=problem.implementation.engine,
        dtype=dtype,
        mode=mode,
        input=input,
        point=problem.point_number,
        detail=detail,
        place=place,
        other_run=other_run,
    )


def failed_checks(problem: LayerProblem, modes: Iterable[Mode]) -> tuple[Check, ...]:
    """Checks with status "error" for each input in these modes, in which nothing was computed."""
    engine, dtype, point = problem.implementation.engine, problem.dtype, problem.point_number
    return tuple(
        Check(engine, dtype, mode, name, "error", point)
        for mode in modes
        for name in problem.inputs
    )


class BadSpec(Exception):
    """The spec does not fit the layer."""

    def __init__(self, errors: Sequence[FormulaError]) -> None:
        super().__init__(errors[0].message)
        self._errors = errors

    def answer(self, problem: LayerProblem) -> LayerAnswer:
        """The mistakes as an answer, with their places in the spec; nothing was checked."""
        engine, dtype = problem.implementation.engine, problem.dtype
        return LayerAnswer(
            checks=failed_checks(problem, problem.modes[:1]),
            findings=tuple(
                Finding(e.code, "error", e.message, e.span, engine, dtype, detail=e.help)
                for e in self._errors
            ),
        )


def of_the_target(error: SpecMistake, problem: LayerProblem) -> BadSpec:
    """A mistake that the engine found when it loaded or bound the layer, with its place."""
    span = problem.implementation.span
    return BadSpec([FormulaError(Codes.SPEC_SCHEMA, str(error), span, error.detail)])

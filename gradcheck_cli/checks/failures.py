"""Turn the failure of a layer into checks and findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.findings import failed_checks, finding_for
from gradcheck_cli.domain.codes import Codes, Families
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Failure, Mode
from gradcheck_cli.domain.implications import OF_LAYERS, without_implied
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.judge.failures import CODES_OF_FAILURES

# Findings about numbers: they mean nothing if the layer returns other numbers in every call.
OF_NUMBERS = (
    Codes.WRONG_GRADIENT,
    Codes.MODES_DISAGREE,
    Codes.WRONG_SECOND_DERIVATIVE,
    Families.NOT_FINITE,
    Families.ROUNDING,
    Families.POINT,
    Families.TRUTH,
)
_NUMBERS = re.compile(
    r"\b(expected float|must be (number|float|real)|tuples? of floats)\b", re.IGNORECASE
)
INTEGERS = re.compile(r"\b(ints?|int32|int64|long|integers?|index|indices)\b", re.IGNORECASE)


def drop_implied(problems: Sequence[LayerProblem], answers: Sequence[LayerAnswer]) -> list[Finding]:
    """All findings about the layers of one spec, without those that another finding explains.
    Findings about behaviour have no dtype."""
    engines = [problem.implementation.engine for problem in problems]
    nondeterministic = {
        engine for engine, answer in zip(engines, answers, strict=True) if answer.nondeterministic
    }
    findings = [
        finding
        for engine, answer in zip(engines, answers, strict=True)
        for finding in answer.findings
        if engine not in nondeterministic
        or finding.dtype is None
        or not finding.code.startswith(OF_NUMBERS)
    ]
    pushed = {  # tangents pass although the design stops cotangents
        engine
        for engine, answer in zip(engines, answers, strict=True)
        if not all(one.stops_tangents for one in answer.by_design)
    }
    return [
        finding
        for finding in without_implied(findings, OF_LAYERS)
        if finding.dtype is not None
        or finding.code != Codes.MODES_DISAGREE
        or finding.engine not in pushed
    ]


def _asking_for_numbers(problem: LayerProblem, failure: Failure) -> str:
    """If the failure is about missing numbers, a hint that names the inputs that are single numbers
    and were arrays in the call. If it is about missing integers, one that names the inputs with
    whole numbers, or else all floating-point inputs: inputs are floating-point unless the spec says
    otherwise."""
    compiled = problem.implementation.engine == "eigen"  # a missing integer fails before it runs
    if failure.kind != "raised" or compiled:
        return ""
    point = problem.inputs.values()
    floating = [entry for entry in point if entry.value.dtype.kind == "f"]
    single = ", ".join(f"`{entry.name}`" for entry in floating if entry.value.ndim == 0)
    if single and asks_for_a_number(failure.message):
        return f"{single}: an input, and therefore an array; a lambda can pass the number itself"
    if not INTEGERS.search(failure.message):
        return ""
    whole = [entry for entry in floating if np.all(entry.value == np.round(entry.value))]
    if not floating:
        return ""
    names = ", ".join(f"`{entry.name}`" for entry in whole or floating)
    return f"{names}: floating-point numbers; `{{value: ..., dtype: int64}}` makes them integers"


def asks_for_a_number(message: str) -> bool:
    """Whether an exception says that a single number is missing, and not an array."""
    return bool(_NUMBERS.search(message))


def modes_of(problem: LayerProblem, can: Sequence[Mode]) -> tuple[Mode, ...]:
    """The requested modes that the engine has, or all of them if they were requested by name."""
    if problem.named_modes:
        return problem.modes
    return tuple(m for m in problem.modes if m not in FIRST_ORDER or m in can)


def _first_mode(problem: LayerProblem) -> tuple[Mode, ...]:
    found = engines().get(problem.implementation.engine)
    can = found.engine.capabilities.modes if found and found.engine else FIRST_ORDER
    return modes_of(problem, can)[:1]


def with_failure(problem: LayerProblem, answer: LayerAnswer) -> LayerAnswer:
    """The answer; if it failed, with a finding about the failure and a check for each input."""
    failure = answer.failure
    if failure is None:
        return answer
    code = CODES_OF_FAILURES[failure.kind]
    what = "its behaviour was checked: " if problem.behaviour else ""
    found = finding_for(
        problem,
        code,
        f"while {what}{failure.message}" if what else failure.message,
        severity="error" if code == Codes.UNSUPPORTED_OPERATION and problem.named else None,
        dtype=None if problem.behaviour else problem.dtype,
        detail="\n".join(filter(None, (failure.detail, _asking_for_numbers(problem, failure)))),
        place=failure.place,
    )
    checks = () if problem.behaviour else failed_checks(problem, _first_mode(problem))
    return replace(answer, checks=(*answer.checks, *checks), findings=(*answer.findings, found))

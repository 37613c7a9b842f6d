"""A layer that gave no answer, as checks and findings."""

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

# About numbers: what truth and engine say of them means nothing where no call is like the last.
OF_NUMBERS = (
    Codes.WRONG_GRADIENT,
    Codes.MODES_DISAGREE,
    Codes.WRONG_SECOND_DERIVATIVE,
    Families.NOT_FINITE,
    Families.ROUNDING,
    Families.POINT,
    Families.TRUTH,
)
INTEGERS = re.compile(r"\b(ints?|int32|int64|long|integers?|index|indices)\b", re.IGNORECASE)


def drop_implied(problems: Sequence[LayerProblem], answers: Sequence[LayerAnswer]) -> list[Finding]:
    """All findings about one spec's layers, without those that another explains. What the checks
    of behaviour found has no dtype."""
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
    pushed = {  # tangents pass where cotangents are meant not to
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


def _asking_for_integers(problem: LayerProblem, failure: Failure) -> str:
    """Where integers are missed: which inputs are whole numbers, or else which are numbers at all,
    as all inputs are floating numbers that do not say otherwise."""
    compiled = problem.implementation.engine == "eigen"  # its integers are missed before it runs
    if failure.kind != "raised" or compiled or not INTEGERS.search(failure.message):
        return ""
    point = problem.inputs.values()
    floating = [entry for entry in point if entry.value.dtype.kind == "f"]
    whole = [entry for entry in floating if np.all(entry.value == np.round(entry.value))]
    if not floating:
        return ""
    names = ", ".join(f"`{entry.name}`" for entry in whole or floating)
    return f"{names}: floating-point numbers; `{{value: ..., dtype: int64}}` makes them integers"


def modes_of(problem: LayerProblem, can: Sequence[Mode]) -> tuple[Mode, ...]:
    """The modes that the engine has, or those that were requested by name."""
    if problem.named_modes:
        return problem.modes
    return tuple(m for m in problem.modes if m not in FIRST_ORDER or m in can)


def _first_mode(problem: LayerProblem) -> tuple[Mode, ...]:
    found = engines().get(problem.implementation.engine)
    can = found.engine.capabilities.modes if found and found.engine else FIRST_ORDER
    return modes_of(problem, can)[:1]


def with_failure(problem: LayerProblem, answer: LayerAnswer) -> LayerAnswer:
    """The answer; where it failed, with a finding that says so and a check for each input."""
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
        detail="\n".join(filter(None, (failure.detail, _asking_for_integers(problem, failure)))),
        place=failure.place,
    )
    checks = () if problem.behaviour else failed_checks(problem, _first_mode(problem))
    return replace(answer, checks=(*answer.checks, *checks), findings=(*answer.findings, found))

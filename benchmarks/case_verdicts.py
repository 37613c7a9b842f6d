"""Compares what a run says about a case with what it should say."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import case_classes as classes
from mpmath import mpf

from gradcheck_cli.domain.report import Finding, Fix, SpecError, SpecResult
from reference_engine.op import find

# and how the data call them
ENGINES = {"reference": None, "torch": "torch", "tensorflow": "tf", "jax": "jax"}
FIX = ".fix"  # ends the name of a fix's spec

Kind = Literal["gradient", "value", "raised", "right", "control", "fix", "undefined", "overflow"]
DEFECTS: tuple[Kind, ...] = ("gradient", "value", "raised")
QUIET: tuple[Kind, ...] = ("right", "control", "fix")
POINTS: tuple[Kind, ...] = ("undefined", "overflow")

SHORT = {"sub": "subtract", "mul": "multiply", "div": "divide"}

DEFECTIVE = (*classes.BAD, "error")

# a wrong, missing, infinite, imprecise number, or one that a bound made zero
FAMILIES = re.compile(r"GC(1\d\d|2\d\d|30\d|404)")
OF_THE_VALUE = re.compile(r"GC(203|303)")
OF_THE_POINT = re.compile(r"GC40\d")


@dataclass(frozen=True, slots=True)
class Told:
    """One engine on one spec.

    kind        the situation: a defect of the gradient, of the value alone, an exception; no defect
                ("right": a case whose defect this engine does not have); a point without a
                derivative, or without one that fits the dtype
    verdict     found or missed; quiet or alarm; told or "not told"; refused by the spec reader
    expected    the class of the gradient (of the value, if only that fails) in the data; the
                reference engine is not in the data, and is measured
    measured    the same class in this run
    said        every finding, one on each line
    cause       the operation that is blamed; `agrees` with the hint in the data; `proven` or not
    fix         the formula that is offered; `fixable` if the data have one
    fixed       the class of that formula's gradient, or of its value if that is worse
    subnormal   the true gradient is subnormal, so a zero is right
    """

    id: str
    engine: str
    kind: Kind
    verdict: str
    expected: str
    measured: str
    said: tuple[str, ...]
    cause: str = ""
    hint: str = ""
    agrees: bool = False
    proven: bool = False
    fix: str = ""
    fixable: bool = False
    fixed: str = ""
    subnormal: bool = False


def offers(rows: list[dict[str, Any]], results: Mapping[str, SpecResult]) -> dict[str, str]:
    """The whole formulas of the fixes that are offered for the cases, by the names of their
    specs."""
    found: dict[str, str] = {}
    for row in rows:
        for finding in results[row["id"]].findings if row["id"] in results else ():
            if finding.fix and finding.engine:
                found[offer(row, finding.engine, finding.fix)] = finding.fix.model
    return found


def offer(row: dict[str, Any], engine: str, fix: Fix) -> str:
    return f"{row['id']}.{engine}.{zlib.crc32(fix.model.encode()):08x}"


def judged(row: dict[str, Any], results: Mapping[str, SpecResult], mode: str) -> Iterator[Told]:
    """The results for a case and its fix, engine by engine, in one mode. `results` must include the
    fixes that are offered (`offers`)."""
    for engine, theirs in ENGINES.items():
        # The data's classes are those of reverse mode.
        told = theirs if mode == "reverse" else None
        yield _of_case(row, results, engine, told, mode)
        fix = results.get(row["id"] + FIX)
        if fix and (theirs or "torch") in row["fix_verified"]:
            yield _of_fix(row, fix, engine, mode)


def _of_fix(row: dict[str, Any], result: SpecResult, engine: str, mode: str) -> Told:
    findings = _findings(result, engine, mode)
    if row["label"] == "genuine-overflow":  # the rewritten gradient does not fit either
        kind: Kind = "overflow"
        verdict = _verdict_of_no_defect(kind, findings)
    elif any(f.code == "GC705" for f in findings):  # the engine cannot, and nothing was checked
        kind, verdict = "fix", "refused"
    else:
        # The data verify gradients: a warning about an inaccurate value is not a false alarm.
        off = _measured(row, result, engine, mode)[1] in DEFECTIVE
        alarms = [f for f in findings if not (off and OF_THE_VALUE.match(f.code))]
        kind, verdict = "fix", "alarm" if _is_alarm(alarms) else "quiet"
    return Told(result.spec, engine, kind, verdict, "ok", "", _lines(findings))


def refused(row: dict[str, Any], errors: Mapping[str, list[SpecError]]) -> Iterator[Told]:
    """A case that the spec reader refuses. No defect of it is found."""
    said = tuple(f"{error.code} {error.message}" for error in errors[row["id"]])
    for engine, theirs in ENGINES.items():
        kind, expected = _expected(row, theirs or "torch", "", "")
        verdict = "missed" if kind in DEFECTS else "refused"
        yield Told(row["id"], engine, kind, verdict, expected, "", said)


def _of_case(
    row: dict[str, Any],
    results: Mapping[str, SpecResult],
    engine: str,
    theirs: str | None,
    mode: str,
) -> Told:
    result = results[row["id"]]
    measured, value = _measured(row, result, engine, mode)
    kind, expected = _expected(row, theirs, measured, value)
    if kind in DEFECTS and measured not in DEFECTIVE and value not in DEFECTIVE:
        kind = "right"  # the data call the engine by another function than we do
    if kind == "value":
        measured = value
    findings = _findings(result, engine, mode)
    told = (row["id"], engine, kind)
    if kind not in DEFECTS:
        verdict = _verdict_of_no_defect(kind, findings)
        subnormal = row["truth_is_subnormal"]
        return Told(*told, verdict, expected, measured, _lines(findings), subnormal=subnormal)
    grave = [f for f in findings if f.severity != "note"]
    wanted = [f for f in grave if _finds(f, kind)]
    verdict = "found" if wanted else "missed"
    causes = [f.cause for f in wanted if f.cause]
    fixes = [f.fix for f in wanted if f.fix]
    return Told(
        *told,
        verdict,
        expected,
        measured,
        _lines(findings),
        cause=causes[0].op if causes else "",
        hint=row["culprit_op"],
        agrees=bool(causes) and causes[0].op in _operations(row["culprit_op"]),
        proven=bool(causes) and causes[0].proven,
        fix=fixes[0].after if fixes else "",
        fixed=_fixed(row, results[offer(row, engine, fixes[0])], engine, mode) if fixes else "",
        fixable=bool(row["fix"]) and (theirs or "torch") in row["fix_verified"],
    )


def _fixed(row: dict[str, Any], result: SpecResult, engine: str, mode: str) -> str:
    gradient, value = _measured(row, result, engine, mode)
    if not any(OF_THE_VALUE.match(f.code) for f in _findings(result, engine, mode)):
        value = "ok"  # half an ulp of the inputs explains it
    return next((name for name in (gradient, value) if name in DEFECTIVE), "ok")


def _operations(hint: str) -> set[str]:
    """The operations of the table to which a hint such as "sub/log" refers."""
    words = {SHORT.get(word, word) for word in re.split(r"\W+", hint)}
    return words | {row.name for word in words if (row := find(word))}


def _finds(finding: Finding, kind: Kind) -> bool:
    if kind == "value":
        return bool(OF_THE_VALUE.match(finding.code))
    return bool(FAMILIES.match(finding.code)) or (kind == "raised" and finding.code == "GC701")


def _verdict_of_no_defect(kind: Kind, findings: list[Finding]) -> str:
    alarm = _is_alarm(findings)
    if kind == "undefined":
        # Either the point is named, or the engine's convention is one of those that are allowed.
        named = any(OF_THE_POINT.match(f.code) for f in findings)
        return "told" if named or not alarm else "not told"
    if kind == "overflow":
        # A right infinity is not called wrong; any other finding says what does not fit.
        told = any("fit" in f.message or "overflow" in f.message for f in findings)
        # An engine that takes the input for 0 has no number to overflow, but a pole.
        told |= any(f.code == "GC402" for f in findings)
        return "told" if told or not alarm else "not told"
    return "alarm" if alarm else "quiet"


def _is_alarm(findings: list[Finding]) -> bool:
    return any(f.severity != "note" for f in findings)


def _expected(
    row: dict[str, Any], theirs: str | None, gradient: str, value: str
) -> tuple[Kind, str]:
    """The situation in this engine, and the class that shows it. `theirs` is the engine's name in
    the data; without it, `gradient` and `value` are the measured classes."""
    if theirs:
        gradient, value = row[f"class_{theirs}"], row[f"class_forward_{theirs}"]
        if gradient == "zero" and row["truth_is_subnormal"]:
            gradient = "flush"
        if value == "zero" and classes.is_subnormal(mpf(row["true_value"]), row["dtype"]):
            value = "flush"
    if row["label"] == "control-no-defect" and (theirs or gradient not in classes.BAD):
        return "control", gradient
    kinds: dict[str, Kind] = {
        "undefined-or-convention": "undefined",
        "genuine-overflow": "overflow",
    }
    if row["label"] in kinds:
        return kinds[row["label"]], gradient
    if gradient in classes.BAD:
        return "gradient", gradient
    if gradient == "error":
        return "raised", gradient
    return ("value", value) if value in classes.BAD else ("right", gradient)


def _measured(row: dict[str, Any], result: SpecResult, engine: str, mode: str) -> tuple[str, str]:
    """The classes of this run's gradient and value. If the data have no truth, they are empty
    unless values are not finite."""
    for reading in result.readings:
        if reading.engine == engine and reading.mode == mode:
            gradients = [reading.gradients.get(name) for name in row["wrt"]]
            gradient, value = "", classes.without_truth(reading.output)
            if row["true_gradient"] is not None:
                gradient = classes.classified(gradients, row["true_gradient"], row["dtype"])
            if row["true_value"] not in (None, "nan"):
                value = classes.classified(reading.output, row["true_value"], row["dtype"])
            return gradient, value
    return "error", "error"


def _findings(result: SpecResult, engine: str, mode: str) -> list[Finding]:
    """The findings of one engine in one mode, and the findings of the whole point."""
    return [f for f in result.findings if f.engine in (engine, None) and f.mode in (mode, None)]


def _lines(findings: list[Finding]) -> tuple[str, ...]:
    return tuple(f"{f.code} {f.severity} {f.input or ''}: {f.message}" for f in findings)

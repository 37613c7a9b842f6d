"""The last gate: no number that differs from its truth passes without a rule that allows it.

`rules_of` says by which rules the numbers of a check passed, from the numbers themselves and not
from the judge's decisions. When a spec is finished, `unexplained` compares each check once more
with its rules and findings. A check that passed without either is a bug in gradcheck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Finding, Pass, Rule
from gradcheck_cli.domain.spec import Tolerance
from gradcheck_cli.domain.thresholds import DECIDABLE, ERROR_BITS, FEW_ULPS, NOTE_BITS
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.decision import Judged, Verdict
from gradcheck_cli.judge.measures import (
    Mask,
    accepted_errors,
    has_tolerance,
    legitimately_flushed,
    within_rounding,
)


@dataclass(frozen=True, slots=True)
class Allowing:
    """What a rule allows: `says` in words; `digits` is the part of a dtype's digits that may be
    lost (None: all). If there are `codes`, a finding with one of them must report the entries."""

    says: str
    digits: float | None = None
    codes: tuple[str, ...] = ()


RULES: Mapping[Rule, Allowing] = {
    "kink": Allowing("between the one-sided derivatives of a kink", codes=(Codes.KINK,)),
    "undefined point": Allowing(
        "there is no finite derivative", codes=(Codes.UNDEFINED_DERIVATIVE,)
    ),
    "jump": Allowing("the function jumps", codes=(Codes.DISCONTINUITY,)),
    "undecided": Allowing(
        "the truth is not known well enough",
        codes=(Codes.UNDECIDED, Codes.MODES_DISAGREE, Codes.ENGINES_DISAGREE, Codes.INTERNAL),
    ),
    "lost output": Allowing(
        "the output itself is nan or infinite", codes=(Codes.NON_FINITE_OUTPUT,)
    ),
    "overflow": Allowing("the truth does not fit the dtype", codes=(Codes.INFINITE_GRADIENT,)),
    "flushed": Allowing("the truth is below the smallest normal number"),
    "flushed input": Allowing(
        "the engine treats subnormal inputs as 0", codes=(Codes.UNDEFINED_DERIVATIVE,)
    ),
    "tolerance": Allowing("within the tolerance of the spec"),
    "error bar": Allowing("within the error bar of the truth", DECIDABLE),
    "conditioning": Allowing(
        "rounding, mostly of the inputs, moves the truth by as much",
        codes=(Codes.ILL_CONDITIONED,),
    ),
    "rounding": Allowing("rounding each operation once may cost as much", ERROR_BITS),
    "documented": Allowing(
        "an approximation: documented by the engine, or of the layer's own",
        codes=(Codes.DOCUMENTED_APPROXIMATION,),
    ),
    "few digits": Allowing("fewer than a quarter of the digits are lost", NOTE_BITS),
    "some digits": Allowing(
        "fewer than half of the digits are lost", ERROR_BITS, (Codes.PRECISION_LOSS,)
    ),
    "zero": Allowing("a rounding residue of terms that cancel to zero"),
    "small": Allowing("explained by rounding, and negligible compared with the other derivatives"),
    "invisible": Allowing(
        "negligible compared with the largest entry of its row or column",
        codes=(Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO),
    ),
    "no gradient": Allowing("there is no gradient, and the derivative is zero"),
    "approximation": Allowing("a finite difference was requested", codes=(Codes.DIFFERENCE_ERROR,)),
    "products": Allowing(
        "random products agree with differences, or with tangents of the operations"
    ),
    "enclosed": Allowing("random products agree with their enclosures"),
    "path": Allowing("the effect of rounding on a training path"),
    "none": Allowing("no rule allows it", 0.0),
}
"""In the order in which they are tried; `none` is the rest."""

OF_VERDICT: Mapping[Verdict, Rule] = {
    Verdict.OUTPUT_LOST: "lost output",
    Verdict.KINK: "kink",
    Verdict.UNDEFINED: "undefined point",
    Verdict.JUMP: "jump",
    Verdict.UNDECIDED: "undecided",
    Verdict.OVERFLOW: "overflow",
    Verdict.DOCUMENTED: "documented",
    Verdict.ILL_CONDITIONED: "conditioning",
}


def rules_of(
    g: Array, block: TruthBlock, judged: Judged, fmt: FloatFormat, tolerance: Tolerance | None
) -> tuple[Pass, ...]:
    """Return the rules by which the entries of a block, shape (rows, columns), pass, for all
    entries that are not smooth or are off by more than a few ulps. The rule `none` has the entries
    that no rule allows. They are reported as errors, or the judge missed them."""
    left = ~(judged.ulps <= FEW_ULPS)
    if judged.verdict.any() or block.kind.any():
        left |= (block.kind != PointKind.SMOOTH) | (judged.verdict != Verdict.CORRECT)
    if not left.any():
        return ()
    passes: list[Pass] = []
    for rule, mask in _masks(g, block, judged, fmt, tolerance):
        mine = mask & left
        if mine.any():
            passes.append(_pass(rule, judged.ulps[mine]))
            left &= ~mine
            if not left.any():
                return tuple(passes)
    return (*passes, _pass("none", judged.ulps[left]))


def _pass(rule: Rule, ulps: Array) -> Pass:
    known = ulps[np.isfinite(ulps)]
    worst = float(np.max(known)) if known.size == ulps.size else None
    return Pass(rule, int(ulps.size), worst)


def merged(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """Merge the passes of each rule into one, with all of its entries."""
    by_rule: dict[Rule, list[Pass]] = {}
    for one in passes:
        by_rule.setdefault(one.rule, []).append(one)
    return tuple(
        Pass(
            rule,
            sum(one.entries for one in several),
            None
            if any(one.ulps is None for one in several)
            else max(one.ulps or 0.0 for one in several),
        )
        for rule, several in by_rule.items()
    )


def _masks(
    g: Array, block: TruthBlock, judged: Judged, fmt: FloatFormat, tolerance: Tolerance | None
) -> Iterator[tuple[Rule, Mask]]:
    """Yield the entries that each rule allows, decided by the numbers that the rule is about."""
    verdict, rough = judged.verdict, judged.verdict.any()
    for one, rule in OF_VERDICT.items() if rough else ():
        yield rule, np.asarray(verdict == one)
    smooth = block.kind == PointKind.SMOOTH
    yield "flushed", smooth & legitimately_flushed(g, block.value, fmt)
    if rough:
        if judged.hidden is not None:
            lost = np.isin(verdict, (Verdict.PRECISION, Verdict.UNDERFLOW))
            yield "invisible", lost & judged.hidden
        yield "some digits", (verdict == Verdict.PRECISION) & _fewer(judged, fmt, ERROR_BITS)
    correct = smooth & (verdict == Verdict.CORRECT)
    error = np.abs(g - block.value)
    if has_tolerance(fmt, tolerance):
        most = judged.accepted or accepted_errors(block, fmt, tolerance)
        yield "tolerance", correct & (error <= most.base)
    zero = np.abs(block.value) <= block.error
    yield "error bar", correct & ~zero & within_rounding(g, block.value, block.error, fmt)
    yield "few digits", correct & _fewer(judged, fmt, NOTE_BITS)
    most = judged.accepted or accepted_errors(block, fmt, tolerance)
    yield "zero", correct & zero & (error <= most.rounding)
    half = _fewer(judged, fmt, ERROR_BITS)
    yield "rounding", correct & half & (error <= most.rounding)
    felt = np.ones_like(correct) if judged.felt is None else judged.felt
    explained = (error <= most.conditioning) | (error <= most.rounding)
    yield "small", correct & ~felt & explained


def _fewer(judged: Judged, fmt: FloatFormat, part: float) -> Mask:
    """Entries that lost no more than this part of the digits."""
    return np.asarray(judged.ulps <= 2.0 ** (part * fmt.bits))


def unexplained(
    checks: Iterable[Check], findings: Sequence[Finding]
) -> Iterator[tuple[Check, str]]:
    """Yield the checks whose numbers passed without a rule or finding that explains them, and
    why."""
    for check in checks:
        if check.status == "passed":
            about = [finding for finding in findings if _speaks_of(finding, check)]
            why = _unexplained(check, about)
            if why:
                yield check, why


def _unexplained(check: Check, about: Sequence[Finding]) -> str:
    codes = {finding.code for finding in about}
    if any(finding.severity == "error" and finding.dtype is None for finding in about):
        return ""  # its behaviour is wrong, so its numbers mean nothing
    digits = FORMATS[check.dtype].bits
    for passed in check.passed_by:
        rule = RULES[passed.rule]
        off = "not a number" if passed.ulps is None else f"{passed.ulps:.3g} ulp off"
        many = f"{passed.entries} entries, {off}"
        if rule.digits is not None and (passed.ulps or 0.0) > 2.0 ** (rule.digits * digits):
            return f"{many}, passed by the rule `{passed.rule}`: {rule.says}"
        if rule.codes and codes.isdisjoint(rule.codes):
            return f"{many}, passed by the rule `{passed.rule}` and not reported"
    if check.passed_by or codes:
        return ""
    if check.max_ulps is None:
        return "its error is not known"
    if check.max_ulps > FEW_ULPS:
        return f"an error of {check.max_ulps:.3g} ulp"
    return ""


def _speaks_of(finding: Finding, check: Check) -> bool:
    """Check whether the finding is about the numbers of the check. A finding about the point, or
    one that compares two engines or modes, is reported once and concerns all engines and modes."""
    return (
        finding.dtype in (check.dtype, None)
        and finding.point == check.point
        and finding.input in (check.input, None)
        and (
            finding.engine in (check.engine, None)
            or finding.code in (Codes.MODES_DISAGREE, Codes.ENGINES_DISAGREE)
        )
    )

"""Findings about a compiled derivative, compared with the same function without its compiler: where
that is right, they are GC108, which names the stage of the compiler that is wrong. Where the
compiled derivative alone is right, there is a note."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.engines import UNCOMPILED
from gradcheck_cli.domain.report import Check, Finding
from gradcheck_cli.domain.thresholds import COMPILED_LOSS

Examined = tuple[Sequence[Check], Sequence[Finding]]

OF_NUMBERS = (
    Codes.WRONG_GRADIENT,
    Codes.MISSING_GRADIENT,
    Codes.MODES_DISAGREE,
    Codes.WRONG_SECOND_DERIVATIVE,
    Codes.NAN_GRADIENT,
    Codes.INFINITE_GRADIENT,
    Codes.PRECISION_LOSS,
    Codes.UNDERFLOW_TO_ZERO,
)
"""What can be wrong with the numbers of a derivative."""


def blamed_on_a_stage(
    findings: Sequence[Finding],
    stages: Sequence[str],
    examined_at: Callable[[str], Steps[Examined]],
) -> Steps[tuple[Finding, ...]]:
    """The findings of one engine, of which those that it does not have without its compiler are
    GC108.

    `stages` are those of its compiler, from nothing compiled to everything; `examined_at` gives the
    checks and findings where it goes up to a stage and no further.
    """
    suspect = [finding for finding in findings if finding.code in OF_NUMBERS]
    if not suspect or not stages:
        return tuple(findings)
    *partial, last = stages
    before: dict[Finding, str] = {}  # the last stage at which it is right, by finding
    guilty: dict[Finding, str] = {}
    for stage in partial:
        open_ = [one for one in suspect if one not in guilty]
        if not open_:
            break
        seen = yield from examined_at(stage)
        for finding in open_:
            if not _is_seen(finding, *seen):
                before[finding] = stage
            elif finding in before:
                guilty[finding] = stage
            else:  # wrong without a compiler, too
                suspect.remove(finding)
    return tuple(
        _compiled(one, before[one], guilty.get(one, last)) if one in suspect else one
        for one in findings
    )


def _is_seen(finding: Finding, checks: Sequence[Check], findings: Sequence[Finding]) -> bool:
    """Whether the same derivative is wrong there, too, or is of an output that is lost there."""
    what = finding.mode, finding.input
    if _is_lost(finding, findings) or any(
        one.code in OF_NUMBERS and (one.mode, one.input) == what for one in findings
    ):
        return True
    if finding.code != Codes.PRECISION_LOSS or not finding.entries:
        return False
    ulps = [one.max_ulps or 0.0 for one in checks if (one.mode, one.input) == what]
    lost = math.log2(max(finding.entries[0].ulps or 1.0, 1.0))
    return math.log2(max(*ulps, 1.0, 1.0)) * COMPILED_LOSS > lost


def _is_lost(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether one of `findings` says that the output is not finite to which the worst entry
    belongs. No gradient is judged there."""
    what, how = (Codes.NON_FINITE_OUTPUT, finding.mode), finding.indexing
    lost = [one for one in findings if (one.code, one.mode) == what]
    if how is None or how.cotangents or not finding.entries:
        return bool(lost)
    place = finding.entries[0].index[: how.output_axes]
    return any(entry.index == place for one in lost for entry in one.entries)


def _compiled(finding: Finding, before: str, stage: str) -> Finding:
    """The finding as GC108."""
    return replace(
        finding,
        code=Codes.COMPILED_GRADIENT,
        severity="error",
        stage=stage,
        message=f"{finding.message}; right with {before}, wrong from {stage} on",
    )


def notes_of_better(checks: Sequence[Check], findings: Sequence[Finding]) -> Iterator[str]:
    """A sentence for each compiled engine that is right where the same framework without its
    compiler is not, as XLA is for erfinv(x) near 0."""
    wrong = {
        (one.engine, one.dtype, one.mode, one.input, one.point)
        for one in findings
        if one.code in OF_NUMBERS
    }
    better: dict[str, list[str]] = {}
    for check in checks:
        what = check.dtype, check.mode, check.input, check.point
        is_right = check.status == "passed" and (check.engine, *what) not in wrong
        if is_right and (UNCOMPILED.get(check.engine), *what) in wrong:
            words = f"`{check.input}` in {check.mode} mode, {check.dtype}"
            better.setdefault(check.engine, []).append(words)
    for engine, places in better.items():
        where = "; ".join(dict.fromkeys(places))
        yield f"{engine} is right where {UNCOMPILED[engine]} is not: the gradient of {where}"

"""Findings that a compiler causes.

A compiled derivative is compared with the derivative of the same function without its compiler. If
the uncompiled derivative is right, the finding becomes GC108, or GC104 for a value, and names the
stage of the compiler. If only the compiled derivative is right, a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.codes import Codes, Families
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.engines import UNCOMPILED
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Entry, Finding
from gradcheck_cli.domain.thresholds import COMPILED_LOSS
from gradcheck_cli.judge.measures import within_rounding

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
"""Findings about the numbers of a derivative."""

OF_VALUES = (Codes.UNSTABLE_OUTPUT, Codes.NON_FINITE_OUTPUT)
"""Findings about the value."""


def blamed_on_a_stage(
    findings: Sequence[Finding],
    stages: Sequence[str],
    examined_at: Callable[[str], Steps[Examined]],
) -> Steps[tuple[Finding, ...]]:
    """The findings of one engine, with GC108 for the entries that are right without its compiler.

    `stages` are the stages of its compiler, from nothing compiled to everything compiled.
    `examined_at` gives the checks and findings when the compiler stops after a stage.
    """
    suspects = [
        _Suspect(finding, entry)
        for finding in findings
        if finding.code in (*OF_NUMBERS, *OF_VALUES)
        for entry in finding.entries or (None,)
    ]
    if not suspects or not stages:
        return tuple(findings)
    *partial, last = stages
    for stage in partial:
        open_ = [one for one in suspects if not one.is_settled]
        if not open_:
            break
        seen = yield from examined_at(stage)
        for one in open_:
            if not _is_judged(one.finding, *seen):
                one.silent.append(stage)
            elif not _is_seen(one.finding, one.entry, *seen):
                one.before = stage
                one.silent.clear()
            elif one.before:
                one.wrong_from = stage
            else:
                one.wrong_without_casts = True
    return tuple(part for finding in findings for part in _by_stage(finding, suspects, last))


@dataclass(slots=True)
class _Suspect:
    """An entry of a finding, or a finding without entries. `before` is the last stage at which the
    entry is right, `wrong_from` the first later stage at which it is wrong. `silent` lists the
    stages between the two that gave no numbers."""

    finding: Finding
    entry: Entry | None
    before: str = ""
    wrong_from: str = ""
    wrong_without_casts: bool = False  # wrong without the compiler, too
    silent: list[str] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        return self.wrong_without_casts or bool(self.wrong_from)

    def stage(self, last: str) -> str:
        """The stage to blame."""
        return any_of(self.silent, self.wrong_from or last)


def _by_stage(finding: Finding, suspects: Sequence[_Suspect], last: str) -> Iterator[Finding]:
    """Split the finding into one for each stage at which entries go wrong. Entries that the finding
    counts but does not show go with the worst entry."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for one in suspects:
        if one.finding is finding:
            is_compilers = one.before and not one.wrong_without_casts
            how = (one.before, one.stage(last)) if is_compilers else ("", "")
            groups.setdefault(how, []).extend([one.entry] if one.entry else [])
    if not groups:
        yield finding
    for i, ((before, stage), entries) in enumerate(groups.items()):
        part = replace(finding, entries=tuple(entries), more=finding.more if i == 0 else 0)
        where = f"entry {_index(entries[0])}: " if len(groups) > 1 else ""
        yield (
            _compiled(part, f"{where}right with {before}, wrong from {stage} on", stage)
            if stage
            else part
        )


def any_of(silent: Sequence[str], wrong: str) -> str:
    """The first stage that is wrong, and the silent stages before it, in words."""
    return " or ".join((*silent, wrong))


def _index(entry: Entry) -> str:
    return ", ".join(map(str, entry.index))


def is_of_value(finding: Finding) -> bool:
    """Whether the finding is about the value, possibly changed by the compiler."""
    return finding.code in OF_VALUES or (finding.code == Codes.WRONG_OUTPUT and bool(finding.stage))


def _is_judged(finding: Finding, checks: Sequence[Check], findings: Sequence[Finding]) -> bool:
    """Whether the examination at that stage judged the same derivative."""
    if any(one.mode == finding.mode and one.code.startswith(Families.ENGINE) for one in findings):
        return False
    inputs = {one.input for one in checks if one.mode == finding.mode}
    return finding.input in inputs or (finding.input is None and bool(inputs))


def _is_seen(
    finding: Finding, entry: Entry | None, checks: Sequence[Check], findings: Sequence[Finding]
) -> bool:
    """Whether the same entry is wrong at that stage, too, or its output is lost there."""
    what = finding.mode, finding.input
    if finding.code == Codes.UNSTABLE_OUTPUT and not _is_beyond_rounding(finding, entry):
        return True  # a compiler may round in a different order
    codes = OF_VALUES if finding.code in OF_VALUES else OF_NUMBERS
    same = [one for one in findings if one.code in codes and (one.mode, one.input) == what]
    if _is_lost(finding, entry, findings) or any(_has(one, entry) for one in same):
        return True
    if finding.code != Codes.PRECISION_LOSS or entry is None:
        return False
    ulps = [one.max_ulps or 0.0 for one in checks if (one.mode, one.input) == what]
    lost = math.log2(max(entry.ulps or 1.0, 1.0))
    return math.log2(max(*ulps, 1.0, 1.0)) * COMPILED_LOSS > lost


def _is_beyond_rounding(finding: Finding, entry: Entry | None) -> bool:
    """Whether the error of a value is larger than rounding each operation once explains."""
    if entry is None or entry.computed is None or entry.truth is None or entry.rounding is None:
        return False
    fmt, bar = FORMATS[finding.dtype or "float64"], entry.truth_error or 0.0
    return not within_rounding(entry.computed, entry.truth, bar, fmt, entry.rounding)


def _has(finding: Finding, entry: Entry | None) -> bool:
    """Whether the finding is about the entry, or does not show all its entries."""
    if entry is None or finding.more or not finding.entries:
        return True
    return any(entry.index == one.index for one in finding.entries)


def _is_lost(finding: Finding, entry: Entry | None, findings: Sequence[Finding]) -> bool:
    """Whether `findings` report that the output of the entry is not finite; no gradient is judged
    there. A finding about a formula names only one of the lost outputs, so any output may be
    lost."""
    what, how = (Codes.NON_FINITE_OUTPUT, finding.mode), finding.indexing
    lost = [one for one in findings if (one.code, one.mode) == what]
    if how is None or how.cotangents or entry is None:
        return bool(lost)
    place = entry.index[: how.output_axes]
    return any(
        not one.entries or any(other.index == place for other in one.entries) for one in lost
    )


def _compiled(finding: Finding, words: str, stage: str) -> Finding:
    """The finding as GC108, or as GC104 if it is about a finite value."""
    codes = {Codes.UNSTABLE_OUTPUT: Codes.WRONG_OUTPUT}
    codes[Codes.NON_FINITE_OUTPUT] = Codes.NON_FINITE_OUTPUT
    return replace(
        finding,
        code=codes.get(finding.code, Codes.COMPILED_GRADIENT),
        severity="error",
        stage=stage,
        message=f"{finding.message}; {words}",
    )


def notes_of_better(checks: Sequence[Check], findings: Sequence[Finding]) -> Iterator[str]:
    """A sentence for each compiled engine that is right where the same framework without its
    compiler is wrong: in a gradient, or in the value, as XLA is for log(exp(100))."""
    wrong = {
        (one.engine, one.dtype, one.mode, one.point, _of_what(one))
        for one in findings
        if one.code in (*OF_NUMBERS, *OF_VALUES)
    }
    better: dict[str, list[str]] = {}
    for check in checks:
        plain, where = UNCOMPILED.get(check.engine), (check.dtype, check.mode, check.point)
        judged = {check.input: check.status == "passed", _VALUE: check.status != "error"}
        for what, is_judged in judged.items():
            here = *where, what
            if is_judged and (plain, *here) in wrong and (check.engine, *here) not in wrong:
                name = what if what == _VALUE else f"the gradient of `{what}`"
                words = f"{name} in {check.mode} mode, {check.dtype}"
                better.setdefault(check.engine, []).append(words)
    for engine, places in better.items():
        listed = "; ".join(dict.fromkeys(places))
        yield f"{engine} is right where {UNCOMPILED[engine]} is not: {listed}"


_VALUE = "the value"


def _of_what(finding: Finding) -> str | None:
    """What a finding is about: an input, whose gradient is wrong, or the value."""
    return _VALUE if finding.code in OF_VALUES else finding.input

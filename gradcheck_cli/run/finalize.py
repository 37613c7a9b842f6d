"""The end of a spec: its findings become a SpecResult. Nothing numerical happens here."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

from gradcheck_cli.domain.codes import CODES, ENGINE_FAILED, Codes
from gradcheck_cli.domain.curve import Curve
from gradcheck_cli.domain.dtypes import COMPLEX, parts_of, quiet
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Failure, Training, modes_in
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.implementation import ByDesign
from gradcheck_cli.domain.layer import LayerAnswer, Meant
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.place import STDIN
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import (
    Accepted,
    Check,
    Finding,
    Reading,
    SpecResult,
    Status,
    TrainingResult,
    internal_about,
)
from gradcheck_cli.domain.spec import Allow, Spec
from gradcheck_cli.judge.gate import unexplained
from gradcheck_cli.run.plan import Plan
from gradcheck_cli.specfile.points import FLAG

Judged = TypeVar("Judged", Check, Finding, Reading)

BETWEEN_ENGINES = (Codes.ENGINES_DISAGREE, Codes.IMPLEMENTATIONS_DIFFER)


@dataclass(slots=True)
class Found:
    """What the examinations of a spec found. `layers` are the answers to `plan.layers`."""

    checks: list[Check] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    trainings: list[Training] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    layers: list[LayerAnswer] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    curve: Curve | None = None
    duration_s: float = 0.0
    compile_s: Mapping[str, float] = field(default_factory=dict)


@quiet
def settle(
    plan: Plan,
    options: RunOptions,
    every_engine: Iterable[str],
    found: Found,
    known: Counter[str] | None = None,
) -> SpecResult:
    """The result of a spec. `every_engine` are the engines that would run by default if all were
    installed. `known` counts the findings of the baseline by fingerprint; each finding that is left
    out is subtracted."""
    spec = plan.spec
    compiled = _failed_by_compilers(found.checks, found.findings)
    checks, findings = _through_the_gate(plan, compiled, found.findings)
    readings: Sequence[Reading] = found.readings
    if any(one.is_complex for one in spec.inputs.values()):
        checks, findings = _in_complex(checks), _in_complex(findings)
        readings = _in_complex(readings)
    unused = list(_unmatched(plan, options, every_engine, findings))
    row = CODES[Codes.UNUSED_ALLOW]
    unmet = [Finding(row.code, row.severity, sentence, allow.span) for allow, sentence in unused]
    findings = [*findings, *unmet]
    completed = [_completed(_allowed(one, spec.allow), plan, options) for one in findings]
    judged = [_suppressed(one, options, Counter() if known is None else known) for one in completed]
    shown = tuple(finding for finding, why in judged if not why)
    grave = any(finding.severity == "error" and not finding.allowed for finding in shown)
    status: Status = "failed" if grave else "passed"
    return SpecResult(
        spec=spec.name,
        source=spec.source,
        status=status,
        checks=tuple(checks),
        findings=shown,
        suppressed=tuple(replace(finding, reason=why) for finding, why in judged if why),
        readings=tuple(readings),
        trainings=tuple(end for path in found.trainings if (end := training_result(path))),
        unmatched_allows=tuple(f"line {allow.span.line}: {sentence}" for allow, sentence in unused),
        by_design=tuple(_accepted(plan, found.layers)),
        notes=(*plan.notes, *dict.fromkeys(found.notes), *unmatched(plan, found.layers)),
        duration_s=found.duration_s,
        compile_s=found.compile_s,
        output_name=spec.program.result.name or "output",
        graphs=tuple(found.graphs),
        curve=found.curve,
        line=spec.span.line,
    )


def _failed_by_compilers(checks: Sequence[Check], findings: Iterable[Finding]) -> list[Check]:
    """The checks. A check fails if one of its findings is GC108: a loss of digits that would pass
    otherwise is an error if the compiler alone causes it."""
    wrong = {
        (one.engine, one.dtype, one.mode, one.input, one.point)
        for one in findings
        if one.code == Codes.COMPILED_GRADIENT
    }
    return [
        replace(one, status="failed")
        if one.status == "passed"
        and (one.engine, one.dtype, one.mode, one.input, one.point) in wrong
        else one
        for one in checks
    ]


def _through_the_gate(
    plan: Plan, checks: Sequence[Check], findings: Sequence[Finding]
) -> tuple[Sequence[Check], Sequence[Finding]]:
    """The checks and findings after the last gate. A check with an error that nothing explains gets
    the status `error` and a finding GC706."""
    broken = dict(unexplained(checks, findings))
    if not broken:
        return checks, findings
    span = plan.spec.program.result.span
    mistakes = [
        internal_about(
            check,
            Failure("internal", f"{why}, and no finding; please report this bug in gradcheck"),
            span,
        )
        for check, why in broken.items()
    ]
    held = [replace(check, status="error") if check in broken else check for check in checks]
    return held, [*findings, *mistakes]


def _in_complex(judged: Sequence[Judged]) -> list[Judged]:
    """Replaces the dtype of the real parts, in which complex numbers were judged, by the complex
    dtype of the layer."""
    names = {parts: dtype for dtype, parts in COMPLEX.items()}
    return [replace(one, dtype=names.get(one.dtype or "", one.dtype)) for one in judged]


def _suppressed(finding: Finding, options: RunOptions, known: Counter[str]) -> tuple[Finding, str]:
    """The finding, and why it does not count (an empty string if it does)."""
    for prefix in options.ignore:
        if finding.code.startswith(prefix):
            return finding, f"--ignore {prefix}"
    if options.select and not any(finding.code.startswith(prefix) for prefix in options.select):
        return finding, f"--select {','.join(options.select)}"
    if known[finding.fingerprint] > 0 and not finding.allowed:
        known[finding.fingerprint] -= 1
        return finding, f"baseline {options.baseline_file}"
    return finding, ""


def _matches(allow: Allow, finding: Finding) -> bool:
    return (
        allow.code == finding.code
        and allow.engine in (None, finding.engine)
        and (allow.dtype is None or parts_of(allow.dtype) == parts_of(finding.dtype or ""))
        and allow.input in (None, finding.input)
    )


def _allowed(finding: Finding, allows: Sequence[Allow]) -> Finding:
    for allow in allows:
        if _matches(allow, finding):
            return replace(finding, allowed=True, reason=allow.reason)
    return finding


def _unmatched(
    plan: Plan, options: RunOptions, every_engine: Iterable[str], findings: Sequence[Finding]
) -> Iterator[tuple[Allow, str]]:
    """Each `allow` that matches nothing, with a sentence. An `allow` about something that did not
    run, or did not finish, is left out."""
    spec = plan.spec
    if not spec.allow or any(finding.code in ENGINE_FAILED for finding in findings):
        return
    expected = set(spec.engines or every_engine)
    all_dtypes = options.dtypes.override is None
    all_modes = options.modes.override is None
    for allow in spec.allow:
        ran = allow.engine in plan.engines if allow.engine else expected <= set(plan.engines)
        ran = (
            ran
            and all_modes
            and (parts_of(allow.dtype) in plan.dtypes if allow.dtype else all_dtypes)
        )
        if ran and not allow.shared and not any(_matches(allow, finding) for finding in findings):
            where = " ".join(part for part in (allow.engine, allow.dtype, allow.input) if part)
            what = f"{allow.code} {where}".strip()
            yield allow, f"`{what}` matched no finding ({allow.reason})"


def _completed(finding: Finding, plan: Plan, options: RunOptions) -> Finding:
    return replace(
        finding,
        fingerprint=_fingerprint(finding, plan.spec),
        repeat=_repeat(finding, plan, options),
    )


def _fingerprint(finding: Finding, spec: Spec) -> str:
    """An identifier of the finding that stays the same from run to run, whatever its numbers."""
    parts = (
        spec.identity or spec.name,
        finding.code,
        finding.engine,
        finding.dtype,
        finding.mode,
        finding.input,
        finding.point,
    )
    text = "\0".join("" if part is None else str(part) for part in parts)
    import hashlib  # with all of OpenSSL, and only a finding needs it

    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _repeat(finding: Finding, plan: Plan, options: RunOptions) -> str:
    """The command that shows the finding again. If the finding compares engines or modes, the
    command runs all of them."""
    words = []
    if finding.engine:
        compared = plan.engines if finding.code in BETWEEN_ENGINES else [finding.engine]
        words += ["--engine", ",".join(compared)]
    if finding.dtype:
        words += ["--dtype", finding.dtype]
    if finding.mode:
        both = FIRST_ORDER if finding.code == Codes.MODES_DISAGREE else modes_in(finding.mode)
        words += ["--mode", ",".join(mode for mode in FIRST_ORDER if mode in both)]
    if finding.code == Codes.DIFFERENCE_ERROR:
        words += ["--difference-scheme", options.difference.scheme]
        if options.difference.step is not None:
            words += ["--difference-step", str(options.difference.step)]
    if options.device.override and options.device.override != HOST.device:
        words += ["--device", options.device.override]
    limits = {"--power": options.power, "--timeout": options.timeout, "--memory": options.memory}
    for flag, limit in limits.items():
        if limit.override is not None:
            words += [flag, str(limit.override)]
    words += [word for one in finding.at or options.at for word in (FLAG, one)]
    words += ["--seed", str(plan.seed)]
    called = plan.spec.called or f"gradcheck run {quoted(plan.spec.source.path)}"
    return f"{called} {shlex.join(words)}"


def quoted(path: str) -> str:
    """The path quoted for a shell. Paths that look like an option, or are not UTF-8, are safe,
    too."""
    if path.startswith("-") and path != STDIN:
        path = f"./{path}"
    if path.isprintable():
        return shlex.quote(path)
    codes = os.fsencode(path)
    plain = "".join(chr(c) if 32 <= c < 127 and c not in b"'\\" else f"\\x{c:02x}" for c in codes)
    return f"$'{plain}'"


def training_result(training: Training) -> TrainingResult | None:
    """Where a training path ended, or None if it did not end."""
    if training.failure or training.losses is None:
        return None
    return TrainingResult(
        engine=training.engine,
        dtype=training.dtype,
        steps=len(training.losses) - 1,
        loss=float(training.losses[-1]),
        parameters={name: path[-1].tolist() for name, path in training.parameters.items()},
    )


def _accepted(plan: Plan, answers: Sequence[LayerAnswer]) -> Iterator[Accepted]:
    """Every declaration that matched something, for each engine. `answers` are the answers to
    `plan.layers`."""
    for design, engine, matches in _declared_meanings(plan, answers):
        calls = max((one.calls for one in matches), default=0)
        if calls:
            yield Accepted(
                engine=engine,
                function=design.function,
                detach=design.detach,
                surrogate=design.surrogate,
                reason=design.reason,
                line=design.span.line,
                calls=calls,
                places=tuple(dict.fromkeys(place for one in matches for place in one.places)),
            )


def unmatched(plan: Plan, answers: Sequence[LayerAnswer]) -> Iterator[str]:
    """A sentence for each declaration that matched nothing in any engine that ran."""
    by_design: dict[int, list[Meant]] = {}
    for design, _, matches in _declared_meanings(plan, answers):
        by_design.setdefault(plan.spec.by_design.index(design), []).extend(matches)
    for index, matches in by_design.items():
        design = plan.spec.by_design[index]
        if matches and not design.shared and not any(one.calls for one in matches):
            similar = next((one.similar for one in matches if one.similar), "")
            meant = f"; did you mean `{similar}`?" if similar else ""
            yield (
                f"unused `by_design`: line {design.span.line}: nothing in the layer "
                f"matches `{design.name}` ({design.reason}){meant}"
            )


def _declared_meanings(
    plan: Plan, answers: Sequence[LayerAnswer]
) -> Iterator[tuple[ByDesign, str, list[Meant]]]:
    engines = dict.fromkeys(problem.implementation.engine for problem in plan.layers)
    for index, design in enumerate(plan.spec.by_design):
        for engine in engines:
            yield (
                design,
                engine,
                [
                    one
                    for problem, answer in zip(plan.layers, answers, strict=True)
                    for one in answer.by_design
                    if problem.implementation.engine == engine and one.index == index
                ],
            )

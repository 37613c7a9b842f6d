"""Find the operation of a layer that spoils a number, and its line in the user's file.

A run of the layer is recorded (`recording`). The recording is a program, which is explained like a
formula.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from gradcheck_cli.checks.causes.tangents import Bind, tangents_of_nodes
from gradcheck_cli.checks.causes.traced_entry import TracedEntry
from gradcheck_cli.domain.codes import NOT_FINITE, UNSTABLE, Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import TraceRequest
from gradcheck_cli.domain.report import Cause, CauseKind, Finding
from gradcheck_cli.domain.thresholds import NOTE_BITS, SAME_ERROR, Seconds
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.kit.run_traced import proven
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.engines.tracebacks import is_internal, one_line
from gradcheck_cli.explain.blame.explanation import OF_THE_OUTPUT, blame
from gradcheck_cli.explain.blame.traces import traces_of
from gradcheck_cli.explain.findings import unexplained
from gradcheck_cli.judge.case import only_rounds

OF_ROUNDING = (Codes.PRECISION_LOSS, Codes.UNDERFLOW_TO_ZERO)
LOSSES: tuple[CauseKind, ...] = (
    "absorption",
    "absorbed epsilon",
    "cancellation",
    "saturation",
    "sensitivity",
    "underflow",
    "square inside the derivative",
)
"""Causes that are rounding. Other causes are wrong kernels, rules and conventions."""

SECONDS: Seconds = 20.0
"""The time for one layer at one point in one dtype: enough for a dozen findings about a small layer
or one about a large layer."""

Find = Callable[[Finding], TracedEntry | None]
"""Returns the entry that a finding is about, if any."""


class Blame:
    """Finds the causes of instability in a layer. `subject` is the layer in the judged `dtype`,
    `highest` in the highest precision that it runs in; `bind` binds one of its operations alone, in
    the judged dtype. `notes` says what was not traced, and why;
    `faults` are GC706 findings, each once."""

    def __init__(
        self, subject: Subject, highest: Subject, dtype: str, find: Find, bind: Bind
    ) -> None:
        self._bind = bind
        self._subject = subject
        self._highest = highest
        self._dtype = dtype
        self._find = find
        self._recorded: tuple[bytes, Recording] | None = None  # the last row that was requested
        self._until = time.perf_counter() + SECONDS
        self._exactly: float | None = None  # the last entry, with all operations done exactly
        self._enclosed = False  # no operation of it ran in a float64 kernel
        self._only_rounds = False  # more digits in its operations make it right
        self.narrow_alone: set[str | None] = set()  # inputs with wrong gradients in this dtype only
        self.notes: dict[str, None] = {}
        self.faults: dict[str, Finding] = {}

    def explained(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings, with the operations to blame. A loss of digits becomes GC101 if exact
        operations give the same error; a wrong gradient becomes GC301 if an exact one removes
        it."""
        told: list[tuple[Finding, Finding]] = []
        lost: list[tuple[Finding, Finding]] = []
        for finding in findings:
            asks = finding.code in (*UNSTABLE, Codes.WRONG_GRADIENT) and finding.mode == "reverse"
            asks = asks and finding.cause is None
            now = self._with_cause(finding) if asks else finding
            told.append((finding, now))
            if asks and now.code == finding.code == Codes.PRECISION_LOSS:
                lost += [(finding, now)] if self._shows_loss(now.cause) else []
        causes = {
            (f.code, f.input): f.cause for _, f in told if f.cause and f.cause.phase == "forward"
        }
        renamed = [(was, now) for was, now in told if was.code != now.code]
        both = (
            self._as_in_reverse(
                finding,
                renamed + (lost if finding.code == Codes.WRONG_GRADIENT else []),
                causes.get((finding.code, finding.input)),
            )
            if finding.code in (*UNSTABLE, Codes.WRONG_GRADIENT) and finding.mode == "forward"
            else finding
            for _, finding in told
        )
        return tuple(
            replace(finding, cause=self._cause(finding))
            if finding.code in NOT_FINITE and finding.mode == "forward" and finding.cause is None
            else finding
            for finding in both
        )

    def _with_cause(self, finding: Finding) -> Finding:
        if finding.code == Codes.WRONG_GRADIENT:
            return self._as_precision_loss(finding)
        self._exactly, self._enclosed = None, False
        cause = self._cause(finding)
        if not self._is_no_rounding(finding):
            return replace(finding, cause=cause)
        if self._is_another_function:
            said = (
                f"{finding.message}: in {self._dtype}, the layer computes a different function, as"
            )
            said = f"{said} where a bound is an epsilon of the dtype; this is its derivative"
            return replace(finding, message=said, cause=cause)
        said = "wrong in every precision, so rounding is not the cause"
        if not self._wrong_in_highest(finding):
            self.narrow_alone.add(finding.input)
            other = f"{self._highest.dtype} has no such error"
            said = f"wrong in {self._dtype}, and rounding is not the cause: {other}"
        message = finding.restated(said)
        return replace(finding, code=Codes.WRONG_GRADIENT, severity="error", message=message)

    def _as_precision_loss(self, finding: Finding) -> Finding:
        """GC301 in place of GC101 if one operation that rounds, done exactly, makes the entry
        right. float64 may absorb what float32 absorbs, so both have the same error."""
        worst = finding.worst
        if worst is None or worst.computed is None or worst.truth is None:
            return finding
        cause = self._cause(replace(finding, code=Codes.PRECISION_LOSS))
        if not self._shows_loss(cause):
            return finding
        bits = FORMATS[self._dtype].bits
        lost = min(np.log2(max(worst.ulps or 1.0, 1.0)), bits)
        message = finding.restated(f"{lost:.0f} of {bits} bits lost in {self._dtype}")
        return replace(finding, code=Codes.PRECISION_LOSS, message=message, cause=cause)

    def _shows_loss(self, cause: Cause | None) -> bool:
        """Whether one operation that rounds, done exactly, makes the last entry right."""
        if cause is None or not cause.proven or cause.repaired is None:
            return False
        return cause.kind in LOSSES or self._only_rounds

    def _wrong_in_highest(self, finding: Finding) -> bool:
        """Whether the entry has the same error in the highest precision."""
        if self._highest is self._subject:
            return True
        worst, there = finding.entries[0], self._in_reverse(self._highest, finding)
        if there is None or worst.truth is None or worst.computed is None:
            return False
        return abs(there - worst.truth) >= SAME_ERROR * abs(worst.computed - worst.truth)

    def _in_reverse(self, subject: Subject, finding: Finding) -> float | None:
        """The worst entry, or its sum along its direction, by reverse mode of this subject."""
        traced = self._find(finding)
        if traced is None:
            return None
        found = subject.run(Call(cotangents=traced.row[None])).gradients.get(traced.leaf)
        return 0.0 if found is None else traced.of(found[0])

    def _as_in_reverse(
        self, finding: Finding, renamed: Sequence[tuple[Finding, Finding]], cause: Cause | None
    ) -> Finding:
        """The finding of forward mode, with the code and cause of the same wrong number in reverse
        mode."""
        for was, now in renamed:
            if was.input == finding.input and self._is_so_in_reverse(finding):
                proof = _in_forward_mode(now.cause)
                return replace(
                    finding, code=now.code, severity=now.severity, message=now.message, cause=proof
                )
        return replace(finding, cause=_in_forward_mode(cause)) if cause else finding

    def _is_so_in_reverse(self, finding: Finding) -> bool:
        worst = finding.entries[0] if finding.entries else None
        if worst is None or worst.computed is None or worst.truth is None:
            return False
        there = self._in_reverse(self._subject, finding)
        off = abs(worst.computed - worst.truth)
        return there is not None and abs(worst.computed - there) <= SAME_ERROR * off

    def _is_no_rounding(self, finding: Finding) -> bool:
        """Whether the same operations, done exactly, give the same wrong number."""
        if finding.code not in OF_ROUNDING or finding.severity != "error":
            return False
        if self._exactly is None or not finding.entries:
            return False
        if self._highest is self._subject and not self._enclosed:
            return False
        worst = finding.entries[0]
        if worst.computed is None or worst.truth is None:
            return False
        off = abs(worst.computed - worst.truth)
        return abs(self._exactly - worst.computed) <= SAME_ERROR * off

    @cached_property
    def _is_another_function(self) -> bool:
        """Whether an output has lost digits, and the same operations, done exactly, give the same
        wrong value. (With a wrong rule, the values are right.)"""
        if self._highest is self._subject:
            return False
        seen, right = self._subject.value({}), self._highest.value({})
        off = np.abs(seen - right)
        bits = np.log2(off / FORMATS[self._dtype].ulp(right))
        lost = (bits > NOTE_BITS * FORMATS[self._dtype].bits) & np.isfinite(off)
        place = int(np.argmax(np.where(lost, bits, 0.0)))
        if not np.any(lost):
            return False
        try:
            recording = self._recording(np.eye(1, seen.size, place)[0])
            narrow, _ = recording.traces(self._dtype)
            execution = self._up_to_the_output(recording, place)
            execution = replace(execution, target=execution.output)
            request = TraceRequest(target=float(right[place]))
            fmt = FORMATS[self._dtype]
            exactly = proven(execution, narrow, request, float(seen[place]), fmt).exactly
        except EngineFault:
            return False
        return exactly is not None and abs(exactly - seen[place]) <= SAME_ERROR * off[place]

    def _cause(self, finding: Finding) -> Cause | None:
        if time.perf_counter() > self._until:
            self.notes["not every finding was traced: it would take too long"] = None
            return None
        try:
            if finding.code in OF_THE_OUTPUT:
                return self._of_the_output(finding.code)
            traced = self._find(finding)
            if traced is None:
                return None
            if finding.mode == "forward":
                return self._of_a_tangent(finding, traced)
            return self._of_an_entry(finding, traced)
        except EngineFault as fault:
            self.notes[str(fault)] = None
        except Exception as error:
            if is_internal(error):
                mistake = unexplained(finding, error)
                self.faults[mistake.message] = mistake
            else:  # the layer does not run while watched
                self.notes[f"not traced: {one_line(error)}"] = None
        return None

    def _of_the_output(self, code: str) -> Cause | None:
        """The cause of the worst element of the outputs."""
        seen, right = self._subject.value({}), self._highest.value({})
        off = np.abs(seen - right) / FORMATS[self._dtype].ulp(right)
        place = int(np.argmax(np.where(np.isfinite(seen), np.nan_to_num(off), np.inf)))
        recording = self._recording(np.eye(1, seen.size, place)[0])
        execution = self._up_to_the_output(recording, place)
        target = float(right[place]) if np.isfinite(right[place]) else None
        request = TraceRequest(output=execution.place, output_target=target)
        return self._blame(replace(recording, execution=execution), code, request, 0.0, target)

    def _up_to_the_output(self, recording: Recording, place: int) -> Execution:
        """The run without a derivative; its output is the one with the flat element `place`."""
        for output, slot in zip(self._subject.outputs, recording.outputs, strict=True):
            if output.start <= place < output.start + output.size:
                place -= output.start
                return replace(recording.execution, target=None, output=slot, place=place)
        raise AssertionError(place)

    def _of_a_tangent(self, finding: Finding, traced: TracedEntry) -> Cause | None:
        """The operation that made the first tangent that is not finite."""
        recording = self._recording(traced.row)
        narrow, wide = recording.traces(self._dtype)
        direction = traced.tangent(self._subject.leaves)
        moved = tangents_of_nodes(recording, direction, self._bind)
        narrow = replace(narrow, derivatives=moved)
        wide = None if wide is None else replace(wide, derivatives={})  # it has cotangents
        traces = traces_of(recording.program, self._dtype, "forward", narrow, wide)
        return blame(replace(traces, stated=recording.stated, executed=True), finding.code)

    def _of_an_entry(self, finding: Finding, traced: TracedEntry) -> Cause | None:
        worst = finding.entries[0]
        recording = self._recording(traced.row)
        slot = recording.gradients.get(traced.leaf)
        if slot is None:  # no recorded operation computed it
            return None
        execution = replace(recording.execution, target=slot, place=traced.flat)
        request = TraceRequest(input=traced.leaf, column=traced.flat, target=worst.truth)
        entry = 0.0 if worst.computed is None else worst.computed
        recording = replace(recording, execution=execution)
        return self._blame(recording, finding.code, request, entry, worst.truth)

    def _blame(
        self,
        recording: Recording,
        code: str,
        request: TraceRequest,
        entry: float,
        target: float | None,
    ) -> Cause | None:
        narrow, wide = recording.traces(self._dtype)
        trace = proven(recording.execution, narrow, request, entry, FORMATS[self._dtype])
        self._exactly, self._enclosed = trace.exactly, trace.enclosed
        self._only_rounds = only_rounds(trace, FORMATS[self._dtype])
        traces = traces_of(recording.program, self._dtype, "reverse", trace, wide, target)
        return blame(replace(traces, stated=recording.stated, executed=True), code)

    def _recording(self, row: Array) -> Recording:
        key = row.tobytes()
        if self._recorded is None or self._recorded[0] != key:
            self._recorded = key, self._subject.record(row)
        return self._recorded[1]


def _in_forward_mode(cause: Cause | None) -> Cause | None:
    """The cause for forward mode, proven in reverse mode: both modes compute the same values."""
    if cause is None:
        return None
    return replace(cause, proven=False, repaired=None, proof=f"in reverse mode, {cause.proof}")

"""Which operation of a layer spoils a number, and on which line of the user's file it stands.

The layer runs once more and what it executes is written down (`recording`): then it is a program
like any formula, and is explained as one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Evaluation, TraceRequest
from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.engines.base import EngineFault
from gradcheck_cli.engines.callables.recording import Recording
from gradcheck_cli.engines.callables.subject import Subject
from gradcheck_cli.engines.tracing import proven
from gradcheck_cli.explain.blame import OF_THE_OUTPUT, blame
from gradcheck_cli.explain.traces import traces_of
from gradcheck_cli.judge.outputs import worst_output
from gradcheck_cli.layers.entries import cotangent, worst_entry

UNSTABLE = ("GC201", "GC202", "GC203", "GC301", "GC302", "GC303")

SECONDS = 20.0
"""For one layer at one point in one dtype: a dozen findings of small layers, one of a large one."""


class Blame:
    """The causes of what is unstable in one case. `notes` says what was not looked at, and why."""

    def __init__(self, case: Case, subject: Subject) -> None:
        self._case = case
        self._subject = subject
        self._recorded: tuple[int, Recording] | None = None  # the last row that was asked for
        self._until = time.perf_counter() + SECONDS
        self.notes: dict[str, None] = {}

    def explained(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings, with a cause where an operation is to blame."""
        return tuple(
            replace(finding, cause=self._cause(finding))
            if finding.code in UNSTABLE and finding.mode == "reverse"
            else finding
            for finding in findings
        )

    def _cause(self, finding: Finding) -> Cause | None:
        if time.perf_counter() > self._until:
            self.notes["not every finding was traced: it would take too long"] = None
            return None
        request = self._request(finding)
        if request is None:
            return None
        try:
            with np.errstate(all="ignore"):
                return self._found(finding, request)
        except EngineFault as fault:
            self.notes[str(fault)] = None
            return None

    def _request(self, finding: Finding) -> TraceRequest | None:
        """The number to look for: of the output where the finding is about that, else of its worst
        entry."""
        if finding.code in OF_THE_OUTPUT:
            found = worst_output(self._case, self._evaluation(finding))
            if found is None:
                return None
            return TraceRequest(row=found[0], output=found[0], output_target=found[1])
        place = worst_entry(self._case, finding)
        if place is None:
            return None
        return TraceRequest(place[0], finding.input, place[1], finding.entries[0].truth)

    def _evaluation(self, finding: Finding) -> Evaluation:
        same = (finding.engine, finding.mode)
        return next(e for e in self._case.evaluations if (e.engine, e.mode) == same)

    def _recording(self, finding: Finding, row: int) -> Recording:
        if self._recorded is None or self._recorded[0] != row:
            size = sum(output.size for output in self._subject.outputs)
            given = cotangent(self._case, finding, row, size)
            self._recorded = row, self._subject.record(given)
        return self._recorded[1]

    def _found(self, finding: Finding, request: TraceRequest) -> Cause | None:
        recording = self._recording(finding, request.row)
        execution = replace(recording.execution, target=None, place=request.column)
        entry = 0.0
        if request.input is not None:
            execution.target = recording.gradients.get(request.input)
            gradient = self._evaluation(finding).gradients[request.input].values
            entry = 0.0 if gradient is None else float(gradient[request.row, request.column])
        narrow, wide = recording.traces(self._case.dtype)
        output = self._output(request.output)
        if output is not None:
            execution.output = recording.outputs[output]
            start = self._subject.outputs[output].start
            request = replace(request, output=request.output - start)
        trace = proven(execution, narrow, request, entry, FORMATS[self._case.dtype])
        target = request.output_target if request.input is None else request.target
        traces = traces_of(recording.program, self._case.dtype, "reverse", trace, wide, target)
        return blame(replace(traces, stated=recording.stated), finding.code)

    def _output(self, flat: int) -> int | None:
        """The output whose element it is."""
        for place, output in enumerate(self._subject.outputs):
            if output.start <= flat < output.start + output.size:
                return place
        return None

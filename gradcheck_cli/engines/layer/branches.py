"""Finds where the user's code takes another branch at another point, the condition of an `if` or a
loop; and at which of its returns a function ends."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise, zip_longest
from types import CodeType, FrameType
from typing import Any

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.tracebacks import LIBRARIES, OURS

MOST = 200_000  # instructions of a run: each takes a microsecond to note

Instructions = list[tuple[CodeType, int]]


class _TooMany(Exception):
    pass


def parting(runs: Sequence[Callable[[], object]]) -> Place | None:
    """The last expression of the user's code that two consecutive runs evaluate before they
    diverge; None if all execute the same instructions, or one of them executes too many."""
    try:
        found = list(map(_instructions, runs))
    except _TooMany:
        return None
    for run, next_run in pairwise(found):
        together = zip_longest(run, next_run)
        index = next((i for i, (a, b) in enumerate(together) if a != b), 0)
        if index:
            code, instruction = run[index - 1]
            return Places().of_stack([code], [instruction])
    return None


def _instructions(run: Callable[[], object]) -> Instructions:
    """The instructions of the user's code that a run executes, in order. Raises what the run
    raises, and _TooMany."""
    executed: Instructions = []

    def note(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            if len(executed) >= MOST:
                raise _TooMany
            executed.append((frame.f_code, frame.f_lasti))
        return note

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename.startswith((*LIBRARIES, OURS, "<")):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return note

    _run_traced(run, enter)
    return executed


def returning_line(function: Any, run: Callable[[], object]) -> int | None:
    """The line at which a function of the user last returned in a run; None if it did not run, or
    not in this thread."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    lines: list[int] = []

    def note(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "return":
            lines.append(frame.f_lineno)
        return note

    _run_traced(run, lambda frame, event, arg: note if frame.f_code is code else None)
    return lines[-1] if lines else None


def _run_traced(run: Callable[[], object], enter: Any) -> None:
    """Run with `enter` as the trace function of new frames."""
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)

"""Finds where the user's code takes another branch at another point: the condition of an `if` or a
loop."""

from __future__ import annotations

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

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    return executed

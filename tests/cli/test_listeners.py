import errno
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.cli import listeners
from gradcheck_cli.cli.listeners import Printer, Progress, SearchLine
from gradcheck_cli.cli.outputs import Output
from gradcheck_cli.domain.events import EngineReady, Finished, LayerUnderWay, SpecFinished, Started
from gradcheck_cli.domain.layer import LayerProgress
from gradcheck_cli.domain.search import Search, SearchAnswer, SearchProgress, Witness
from gradcheck_cli.report import open_writer
from gradcheck_cli.report.style import Style
from tests.report import samples

EVENTS = (
    Started(2, ("reference", "torch")),
    EngineReady("torch", "2.13.0", 1.0),
    SpecFinished(samples.quadratic()),
    SpecFinished(samples.reciprocal_exp()),
    Finished(samples.report(samples.quadratic(), samples.reciprocal_exp())),
)


class Screen(Output):
    """Standard output, seen."""

    def __init__(self, stream: io.StringIO) -> None:
        super().__init__("-")
        self.stream = stream


class Full(io.StringIO):
    """A file on a disk that is full."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class Gone(io.StringIO):
    """A pipe whose reader has left."""

    def flush(self) -> None:
        raise BrokenPipeError


def test_each_spec_is_printed_when_it_is_finished() -> None:
    stream = io.StringIO()
    printer = Printer(open_writer("full", stream, Style(width=120)), Screen(stream))
    printer.hear(EVENTS[2])
    assert stream.getvalue().startswith("ok    quadratic")


def test_a_reader_that_leaves_ends_the_printing_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silenced: list[object] = []
    monkeypatch.setattr(listeners, "silence", silenced.append)
    stream = Gone()
    printer = Printer(open_writer("full", stream, Style(width=120)), Screen(stream))
    for event in EVENTS:
        printer.hear(event)
    assert silenced == [stream]
    assert printer.failure == ""


def test_a_disk_that_is_full_is_remembered_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "silence", lambda stream: None)
    stream = Full()
    printer = Printer(open_writer("full", stream, Style(width=120)), Screen(stream))
    for event in EVENTS:
        printer.hear(event)
    printer.end()
    assert printer.failure == "cannot write to standard output: No space left on device"


def test_the_progress_line_counts_and_leaves_nothing_behind() -> None:
    stream = io.StringIO()
    progress = Progress([], stream)
    lines = []
    for event in EVENTS:
        progress.hear(event)
        lines.append(stream.getvalue().rsplit("\r\x1b[2K", 1)[1])
    assert [line.split("] ")[-1] for line in lines] == [
        "0/2 specs; starting reference, torch",
        "0/2 specs; starting reference",
        "1/2 specs; starting reference",
        "2/2 specs, 1 failed; starting reference",
        "",
    ]


def test_the_progress_line_says_how_far_a_large_layer_is() -> None:
    progress = Progress([], io.StringIO())
    name = samples.quadratic().spec

    def heard(done: int) -> str:
        now = LayerProgress("differences", done, expected=30)
        progress.hear(LayerUnderWay(name, "torch", now))
        return progress.line().rpartition("; ")[2]

    assert heard(12) == f"{name}: differences, 12 of about 30 forward passes"
    assert heard(31) == f"{name}: differences, 31 forward passes"
    progress.hear(SpecFinished(samples.quadratic()))
    assert "forward passes" not in progress.line()


def test_the_progress_line_says_how_fast_and_how_long_still() -> None:
    seconds = iter([0.0, 1.0, 10.0, 10.0])
    progress = Progress([], io.StringIO(), files=12, clock=lambda: next(seconds))
    progress.hear(SpecFinished(samples.quadratic()))  # a second says nothing yet
    progress.hear(SpecFinished(replace(samples.quadratic(), cached=True)))
    assert progress.line().endswith("2 specs; 0.1 specs/s, 100 s left")


def test_what_an_engine_takes_to_start_is_not_in_the_pace() -> None:
    now = [0.0]
    progress = Progress([], io.StringIO(), files=11, clock=lambda: now[0])
    now[0] = 90.0
    progress.hear(EngineReady("torch", "2.13.0", 90.0))
    now[0] = 100.0
    progress.hear(SpecFinished(samples.quadratic()))
    assert progress.line().endswith("1 specs; 0.1 specs/s, 100 s left")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_search_says_on_a_terminal_what_it_knows() -> None:
    witness = Witness({"x": np.array(95.0)}, "x", math.nan, 1.0)
    found = Search("torch", "float32", "gradient-nonfinite", "found", witness)
    known = SearchAnswer((found,), open_boxes=12, proven=0.5)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        line = SearchLine(stream)
        line.hear(SearchProgress("odds", "torch", "float32", known))
        line.clear()
        words = "odds torch float32: 12 boxes open, 50 % proven; gradient-nonfinite at x = 95"
        assert (words[:79] in stream.getvalue()) is shown
        assert stream.getvalue().endswith("\r\x1b[2K" if shown else "")

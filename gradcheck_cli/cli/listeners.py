"""The listeners of a run: reports, and the progress line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from gradcheck_cli.cli.streams import Unwritable, is_terminal, silence, width
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.events import (
    EngineReady,
    Event,
    Finished,
    LayerUnderWay,
    SpecFinished,
    Started,
)
from gradcheck_cli.report.numbers import seconds as in_words

if TYPE_CHECKING:
    from gradcheck_cli.cli.execution import Listener
    from gradcheck_cli.cli.outputs import Output
    from gradcheck_cli.domain.search import SearchProgress
    from gradcheck_cli.report import ReportWriter


_PACE_S = 3.0  # an earlier pace means little


class Printer:
    """Passes results to one report writer. If the reader goes (`| head`) or the disk is full, the
    printing ends, but not the run; `failure` has the reason if it is an error."""

    def __init__(self, writer: ReportWriter, output: Output) -> None:
        self._writer = writer
        self.output = output
        self._gone = False
        self.failure = ""

    def hear(self, event: Event) -> None:
        if self._gone:
            return
        stream = self.output.stream
        try:
            if isinstance(event, SpecFinished):
                self._writer.spec(event.result)
            elif isinstance(event, Finished):
                self._writer.finish(event.report)
            stream.flush()
        except BrokenPipeError:
            self._gone = True
            silence(stream)
        except (OSError, Unwritable) as error:
            self._gone = True
            self.failure = str(self.output.failed(error) if isinstance(error, OSError) else error)
            silence(stream)

    def end(self) -> None:
        """Move the report to its place after the run."""
        if self._gone:
            return
        try:
            self.output.keep()
        except UsageError as error:
            self.failure = str(error)


class Line:
    """The last line of a terminal, which is rewritten again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, text: str) -> None:
        """Write the text at the cursor, cut at the terminal's width."""
        self._write(text[: width(self._stream) - 1])

    def clear(self) -> None:
        """Clear the line."""
        self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal has gone
            silence(self._stream)


class SearchLine:
    """One line on a terminal's standard error with the progress of a search. Elsewhere nothing is
    written."""

    def __init__(self, stream: TextIO) -> None:
        self._line = Line(stream)
        self._shown = is_terminal(stream)

    def hear(self, progress: SearchProgress) -> None:
        if self._shown:
            from gradcheck_cli.report.search_words import progress_words

            self._line.clear()
            self._line.show(progress_words(progress))

    def clear(self) -> None:
        if self._shown:
            self._line.clear()


class Progress:
    """One line on a terminal's standard error with the progress of the run and the remaining time.

    Other listeners print above it on the same terminal. `files` is the number of files, each with
    at least one spec. Cached results do not count for the pace of the run.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        stream: TextIO,
        files: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._clock = clock
        self._start = clock()
        self._fresh = 0
        self._listeners = listeners
        self._line = Line(stream)
        self._waiting: dict[str, None] = {}
        self._under_way: dict[str, LayerUnderWay] = {}  # by spec
        self._total = 0
        self._done = 0
        self._failed = 0

    def hear(self, event: Event) -> None:
        self._line.clear()
        for listener in self._listeners:
            listener.hear(event)
        self._count(event)
        if not isinstance(event, Finished):
            self._line.show(self.line())

    def _count(self, event: Event) -> None:
        if isinstance(event, Started):
            self._waiting = dict.fromkeys(event.engines)
            self._total = event.specs
        elif isinstance(event, EngineReady):
            self._waiting.pop(event.engine, None)
            if not self._fresh:  # the start of engines does not count
                self._start = self._clock()
        elif isinstance(event, LayerUnderWay):
            self._under_way[event.spec] = event
        elif isinstance(event, SpecFinished):
            self._under_way.pop(event.result.spec, None)
            self._done += 1
            self._fresh += not event.result.cached
            self._failed += event.result.status != "passed"

    def line(self, cells: int = 24) -> str:
        """`[########        ] 4/12 specs, 1 failed; 2.0 specs/s, 4 s left; starting tensorflow`."""
        total = max(self._total, self._done)
        filled = cells * self._done // total if total else 0
        bar = "#" * filled + " " * (cells - filled)
        count = f"{self._done}/{total}" if self._total else str(self._done)
        failed = f", {self._failed} failed" if self._failed else ""
        pace = self._pace()
        waiting = f"; starting {', '.join(self._waiting)}" if self._waiting else ""
        return f"[{bar}] {count} specs{failed}{pace}{waiting}{self._large()}"

    def _large(self) -> str:
        """The large layer with the latest event: its current question, and how far it is."""
        if not self._under_way:
            return ""
        event = next(reversed(self._under_way.values()))
        now = event.progress
        of_all = f" of about {now.expected}" if now.done < now.expected else ""
        return f"; {event.spec}: {now.what}, {now.done}{of_all} forward passes"

    def _pace(self) -> str:
        """The pace and the remaining time, after some seconds."""
        seconds = self._clock() - self._start
        if seconds < _PACE_S or not self._fresh:
            return ""
        rate = self._fresh / seconds
        left = max((self._total or self._files) - self._done, 0)
        return f"; {rate:.1f} specs/s, {in_words(left / rate)} left"

"""Who hears of a run: reports, and the progress line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from gradcheck_cli.cli.streams import silence, width
from gradcheck_cli.domain.events import EngineReady, Event, Finished, SpecFinished, Started

if TYPE_CHECKING:
    from gradcheck_cli.cli.execution import Listener
    from gradcheck_cli.report import Writer


class Printer:
    """Feeds one report writer. A reader that goes (`| head`) ends the printing, not the run."""

    def __init__(self, writer: Writer, stream: TextIO) -> None:
        self._writer = writer
        self._stream = stream
        self._gone = False

    def hear(self, event: Event) -> None:
        if self._gone:
            return
        try:
            if isinstance(event, SpecFinished):
                self._writer.spec(event.result)
            elif isinstance(event, Finished):
                self._writer.finish(event.report)
            self._stream.flush()
        except BrokenPipeError:
            self._gone = True
            silence(self._stream)


class Progress:
    """One line on a terminal's standard error that says how far the run is.

    What the other listeners print on the same terminal goes above it.
    """

    def __init__(self, listeners: Sequence[Listener], stream: TextIO) -> None:
        self._listeners = listeners
        self._stream = stream
        self._waiting: dict[str, None] = {}
        self._total = 0
        self._done = 0
        self._failed = 0

    def hear(self, event: Event) -> None:
        self._write("\r\x1b[2K")
        for listener in self._listeners:
            listener.hear(event)
        self._count(event)
        if not isinstance(event, Finished):
            self._write(self.line()[: width(self._stream) - 1])

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _count(self, event: Event) -> None:
        if isinstance(event, Started):
            self._waiting = dict.fromkeys(event.engines)
            self._total = event.specs
        elif isinstance(event, EngineReady):
            self._waiting.pop(event.engine, None)
        elif isinstance(event, SpecFinished):
            self._done += 1
            self._failed += event.result.status != "passed"

    def line(self, cells: int = 24) -> str:
        """`[########        ] 4/12 specs, 1 failed; starting tensorflow`."""
        total = max(self._total, self._done)
        filled = cells * self._done // total if total else 0
        bar = "#" * filled + " " * (cells - filled)
        count = f"{self._done}/{total}" if self._total else str(self._done)
        failed = f", {self._failed} failed" if self._failed else ""
        waiting = f"; starting {', '.join(self._waiting)}" if self._waiting else ""
        return f"[{bar}] {count} specs{failed}{waiting}"

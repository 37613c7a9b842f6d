"""What a worker prints: enough for a person, and no flood."""

from __future__ import annotations

import io
import sys

SHOWN = 1 << 20  # characters of each stream that come out for one question


class Bounded(io.TextIOWrapper):
    """A text stream that lets so much through and drops the rest: a layer that prints at every call
    is called many times, and a pipe takes no more than a gigabyte a second."""

    left = SHOWN

    def write(self, text: str) -> int:
        if self.left > 0:
            super().write(text[: self.left])
            self.left -= len(text)
            if self.left <= 0:
                super().write("\n... what is printed beyond is left out\n")
        return len(text)


def bounded(descriptor: int) -> Bounded:
    """An unbuffered stream: what was printed before a crash must come out."""
    raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115 - as long as we live
    return Bounded(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def refill() -> None:
    """The next question may print as much again."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Bounded):
            stream.left = SHOWN

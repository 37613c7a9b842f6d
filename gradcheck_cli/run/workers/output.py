"""The printed output of a worker, limited in size."""

from __future__ import annotations

import codecs
import io
import re
import sys

SHOWN = 1 << 20  # characters of each stream that come out for one question
# and what turns the direction of text around
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Shown:
    """Turns printed bytes into text for a terminal, piece by piece. Control characters that would
    move the cursor, change colours or ring the bell are written out; a carriage return begins a new
    line."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def __call__(self, data: bytes) -> str:
        text = re.sub("\r\n?", "\n", self._decoder.decode(data))
        return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class Bounded(io.TextIOWrapper):
    """A text stream that passes a limited amount on and drops the rest. A layer that prints at
    every call is called many times, and could fill a pipe with a gigabyte per second."""

    left = SHOWN

    def write(self, text: str) -> int:
        if self.left > 0:
            super().write(text[: self.left])
            self.left -= len(text)
            if self.left <= 0:
                super().write("\n... the rest of the output is left out\n")
        return len(text)


def bounded(descriptor: int) -> Bounded:
    """An unbuffered limited stream: what was printed before a crash must be shown."""
    raw = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115 - as long as we live
    return Bounded(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def refill() -> None:
    """Resets the limit for the next question."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Bounded):
            stream.left = SHOWN

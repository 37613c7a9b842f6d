"""From bytes to text: which text can be read, and the place of every character."""

from __future__ import annotations

import re
import stat
import sys
from bisect import bisect_right
from pathlib import Path
from typing import BinaryIO

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.place import STDIN, Source, Span
from gradcheck_cli.domain.report import SpecError

MAX_BYTES = 1_000_000
"""A spec is written by a person. Ten thousand numbers need 100 kB; what is larger is a mistake."""

# YAML 1.2, section 5.1: the characters that a YAML text may not hold.
_ASCII_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]"


def first_control(text: str) -> re.Match[str] | None:
    """The first control character that a text must not contain. (The complete character class is
    slow to compile.)"""
    return re.search(_ASCII_CONTROL if text.isascii() else _CONTROL, text)


class Lines:
    """Converts offsets to lines and columns. Lines are those of `Source.line`; `first` and `margin`
    have the same meaning as there."""

    def __init__(self, text: str, first: int = 1, margin: int = 0) -> None:
        self._first = first
        self._starts = [0]
        self._margins = []
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
            self._margins.append(margin if line.startswith(" " * margin) else 0)
        self._margins.append(0)
        # The last start is the end of the text: a line of its own only after a line break.
        if len(self._starts) > 1 and not text.endswith(tuple(_BREAKS)):
            self._starts.pop()

    def span(self, start: int, end: int) -> Span:
        """The characters from `start` to `end` (exclusive) as a `Span`."""
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        if (
            end_line > line and end_column == 1
        ):  # right after a line break: a caret belongs before it
            end_line, end_column = self._place(end - 1)
            end_column += 1
        return Span(line, column, end_line, end_column)

    def _place(self, offset: int) -> tuple[int, int]:
        row = bisect_right(self._starts, offset) - 1
        return row + self._first, offset - self._starts[row] - self._margins[row] + 1


_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def load(path: str) -> Source | SpecError:
    """The text of the file (or of standard input for "-"), or the reason why it cannot be read
    (GC901, GC902).

    Never reads more than `MAX_BYTES`: a larger file is refused because of its size, and an endless
    one (a device, a pipe) after this many bytes.
    """
    try:
        data = _bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        return SpecError(Codes.UNREADABLE_FILE, path, f"the file cannot be read: {reason(error)}")
    if data is None or len(data) > MAX_BYTES:
        return SpecError(
            Codes.UNREADABLE_FILE,
            path,
            f"the file is larger than {MAX_BYTES // 1_000_000} MB, the limit for a spec",
            help="draw large inputs instead: {shape: [1000, 1000], distribution: normal}",
        )
    return decode(path, data)


def decode(path: str, data: bytes) -> Source | SpecError:
    """The bytes as UTF-8 text, or an error at the first invalid byte or character."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return SpecError(
            Codes.UNREADABLE_FILE, path, "the file is UTF-16, not UTF-8", help="save it as UTF-8"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = len(data[: error.start].decode("utf-8-sig", errors="ignore"))
        source = Source(path, data.decode("utf-8-sig", errors="replace"))
        message = f"the file is not UTF-8 text: byte 0x{data[error.start]:02x}"
        return _at(source, start, Codes.UNREADABLE_FILE, message, "save it as UTF-8")
    return checked(Source(path, text))


def checked(source: Source) -> Source | SpecError:
    """The source, or an error if it is empty or contains a control character."""
    if len(source.text) > MAX_BYTES:
        return SpecError(Codes.UNREADABLE_FILE, source.path, "the text is larger than 1 MB")
    bad = first_control(source.text)
    if bad:
        name = "a NUL byte" if bad[0] == "\0" else f"the control character U+{ord(bad[0]):04X}"
        return _at(
            source,
            bad.start(),
            Codes.UNREADABLE_FILE,
            f"{name} in the file: it is not a text file",
            "",
        )
    if not source.text.strip():
        return SpecError(
            Codes.YAML_SYNTAX,
            source.path,
            "the file is empty",
            first_line(source),
            source,
            help="a spec needs at least `inputs` and `model`",
        )
    return source


def first_line(source: Source) -> Span:
    """The place of a mistake in the file as a whole."""
    return Span(1, 1, 1, max(2, len(source.line(1)) + 1))


def _at(source: Source, start: int, code: str, message: str, help: str) -> SpecError:
    span = Lines(source.text, source.first, source.margin).span(start, start + 1)
    return SpecError(code, source.path, message, span, source, help=help)


def _bytes(path: str) -> bytes | None:
    """At most `MAX_BYTES` + 1 bytes; None if the size of the file is already too large."""
    if path == STDIN:
        return _limited(sys.stdin.buffer)
    with Path(path).open("rb") as stream:
        status = Path(path).stat()
        if stat.S_ISREG(status.st_mode) and status.st_size > MAX_BYTES:
            return None
        return _limited(stream)


def _limited(stream: BinaryIO) -> bytes:
    pieces: list[bytes] = []
    wanted = MAX_BYTES + 1
    while wanted > 0:
        piece = stream.read(wanted)
        if not piece:
            break
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces)


def reason(error: OSError | ValueError) -> str:
    """Why a file or a folder cannot be read."""
    if isinstance(error, IsADirectoryError):
        return "it is a folder"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

"""Standard output and standard error: colour, width, and characters that an encoding lacks."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from gradcheck_cli.domain.errors import UsageError

if TYPE_CHECKING:
    from gradcheck_cli.report.style import Style

PLAIN_WIDTH = 120  # without a terminal, so that nothing is cut at 80
COLOR_CHOICES = ("auto", "always", "never")
color_option = click.option(
    "--color",
    type=click.Choice(COLOR_CHOICES),
    envvar="GRADCHECK_COLOR",
    help="Colours: auto (on a terminal, unless NO_COLOR is set), always or never.",
)


def open_closed_streams() -> None:
    """Replace a standard stream that was closed before the start.

    Reading or writing the replacement then fails as on any closed file, and no file that is opened
    later can take its number. Only standard error accepts text, because nobody reads it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        usable = os.O_RDWR if name == "stderr" else os.O_WRONLY if name == "stdin" else os.O_RDONLY
        nowhere = os.open(os.devnull, usable)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)
        stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


class Unwritable(UsageError):
    """Standard output cannot be written: the disk is full, or it is closed."""


class Results(io.TextIOWrapper):
    """Standard output that raises Unwritable with a message. A reader that goes (BrokenPipeError)
    is not a failure."""

    def write(self, text: str) -> int:
        with _output_errors():
            return super().write(text)

    def flush(self) -> None:
        with _output_errors():
            super().flush()


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(f"cannot write to standard output: {write_reason(error)}") from error


def word_failures() -> None:
    """Replace standard output by Results."""
    if type(sys.stdout) is io.TextIOWrapper:
        old = sys.stdout
        encoding, errors, lines = old.encoding, old.errors, old.line_buffering
        sys.stdout = Results(old.detach(), encoding, errors, line_buffering=lines)


def write_reason(error: OSError) -> str:
    """Why a write failed, in words."""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def prepare_streams() -> None:
    """Escape characters that the encoding of a stream lacks, so that no print raises."""
    for stream in (sys.stdout, sys.stderr):
        _escape(stream)


def _escape(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def wants_color(stream: TextIO, color: str | None = None) -> bool:
    """Whether to use colour. `--color` overrides NO_COLOR, NO_COLOR overrides FORCE_COLOR, and both
    override the terminal."""
    if color in ("always", "never"):
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def width(stream: TextIO) -> int:
    """The columns of the terminal; PLAIN_WIDTH elsewhere."""
    if not is_terminal(stream):
        return PLAIN_WIDTH
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        columns = 80
    return max(columns, 20) if columns else 80


def style_for(
    stream: TextIO, color: str | None, *, verbose: bool = False, quiet: bool = False
) -> Style:
    """The style for `stream`."""
    from gradcheck_cli.report.style import SIGNS, Style  # rich comes with it

    return Style(
        width=width(stream),
        color=wants_color(stream, color),
        unicode=_encodes(stream, SIGNS),
        verbose=verbose,
        quiet=quiet,
    )


def _encodes(stream: TextIO, signs: str) -> bool:
    try:
        signs.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def talk(text: str, style: str = "") -> None:
    """Write a line for people to standard error. `style` is "bold red" or empty."""
    if style and wants_color(sys.stderr):
        head, separator, rest = text.partition(": ")
        text = f"\x1b[1;31m{head}{separator}\x1b[0m{rest}" if separator else text
    try:
        _escape(sys.stderr)
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:  # the disk is full, or the reader has gone: there is nobody to tell
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Discard buffered output, and Python's own flush at exit, after the reader has gone. Otherwise
    both would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

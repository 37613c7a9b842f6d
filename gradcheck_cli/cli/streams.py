"""Standard output and standard error: colour, width, and what an encoding lacks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from gradcheck_cli.report.style import Style

PLAIN_WIDTH = 120  # off a terminal: nothing is cut off at 80
COLOR_CHOICES = ("auto", "always", "never")
color_option = click.option(
    "--color",
    type=click.Choice(COLOR_CHOICES),
    envvar="GRADCHECK_COLOR",
    help="Colours: auto (on a terminal, unless NO_COLOR is set), always or never.",
)


def prepare_streams() -> None:
    """Nothing that is printed may raise for want of a character in the stream's encoding."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def wants_color(stream: TextIO, color: str | None = None) -> bool:
    """`--color` beats NO_COLOR, NO_COLOR beats FORCE_COLOR, and both beat the terminal."""
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
    """Columns of the terminal, PLAIN_WIDTH elsewhere."""
    if not is_terminal(stream):
        return PLAIN_WIDTH
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        columns = 80
    return max(columns, 20) if columns else 80


def style_for(
    stream: TextIO, color: str | None = None, *, verbose: bool = False, quiet: bool = False
) -> Style:
    """How to write to `stream`."""
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
    """A line to standard error, for people. `style` is bold red or nothing."""
    prepare_streams()
    if style and wants_color(sys.stderr):
        head, separator, rest = text.partition(": ")
        text = f"\x1b[1;31m{head}{separator}\x1b[0m{rest}" if separator else text
    sys.stderr.write(text + "\n")


def silence(stream: TextIO) -> None:
    """After the reader has gone: lets what is still buffered, and Python's own flush at exit, go
    nowhere instead of failing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

"""A rich console that prints texts unchanged: no markup, no emoji, no highlighting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.text import Text

from gradcheck_cli.report.style import Style


def make_console(stream: TextIO, style: Style) -> Console:
    return Console(
        file=stream,
        width=style.width,
        force_terminal=style.color,
        color_system="standard" if style.color else None,
        no_color=not style.color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def print_lines(stream: TextIO, style: Style, lines: Iterable[Text]) -> None:
    """Prints lines that are already laid out. Without colour there is nothing left to render."""
    if style.color:
        make_console(stream, style).print(Text("\n").join(lines), soft_wrap=True)
    else:
        stream.write("".join(f"{line.plain}\n" for line in lines))

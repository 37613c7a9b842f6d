"""Places in a text file, for messages."""

from __future__ import annotations

import sys
from typing import Any

from gradcheck_cli.domain.records import dataclass

STDIN = "-"  # the path of a source that is read from standard input
COMMAND_LINE = "command line"  # the path of a spec that the command line makes


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a file. Lines and columns count from 1; the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was read: its path as the user wrote it, and its text, or whole lines of it from
    line `first` on. The text is indented by `margin` blanks that are not in the file."""

    path: str
    text: str
    first: int = 1
    margin: int = 0

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its line break; empty if the text does not
        contain it."""
        lines = self.text.splitlines()
        index = number - self.first
        return lines[index].removeprefix(" " * self.margin) if 0 <= index < len(lines) else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a user's file: the source lines, the span in them, and its text."""

    source: Source
    span: Span
    text: str

    @property
    def line(self) -> str:
        """The file and the line, "layers.py:41"."""
        return f"{self.source.path}:{self.span.line}"


def cell_of(path: str) -> str | None:
    """IPython's name for the cell that it compiled as this file, `Cell In[3]`; None for other
    files."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = shell and getattr(shell.compile, "format_code_name", lambda _: None)(path)
    return " ".join(name) if name else None

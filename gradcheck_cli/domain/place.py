"""Places in a text file, so that every message can point."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a file. Lines and columns count from 1; the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A spec file as it was read: its path as the user wrote it, and its text."""

    path: str
    text: str

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its line break; empty past the end."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""

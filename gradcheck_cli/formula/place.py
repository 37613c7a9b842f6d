"""Maps places in the text of a formula to places in the file."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable

from gradcheck_cli.domain.place import Span

Place = Callable[[int, int], Span]
"""(start, end) of a stretch of the formula, as offsets, to the same stretch of the file."""


_LONGEST = 200  # characters of a fragment: a sum of a thousand terms has a thousand fragments


def own_lines(text: str) -> Place:
    """The place of a formula that is a file of its own: its line 1 is line 1."""
    starts = _line_starts(text)

    def place(start: int, end: int) -> Span:
        row, end_row = bisect_right(starts, start) - 1, bisect_right(starts, end) - 1
        return Span(row + 1, start - starts[row] + 1, end_row + 1, end - starts[end_row] + 1)

    return place


class Positions:
    """The places of the parts of a parsed formula in its text."""

    def __init__(self, text: str, place: Place) -> None:
        self.text = text
        self._place = place
        self._starts = _line_starts(text)
        self._ascii = text.isascii()

    def offset(self, line: int, utf8_column: int) -> int:
        """The offset of a line (from 1) and a column in UTF-8 bytes (from 0), as `ast` counts."""
        start = self._starts[min(line, len(self._starts)) - 1]
        if self._ascii:
            return min(start + utf8_column, len(self.text))
        encoded = self.text[start:].split("\n", 1)[0].encode()
        return start + len(encoded[:utf8_column].decode(errors="ignore"))

    def ends(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> tuple[int, int]:
        """The first offset of the node, and the offset after its last character."""
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None
        assert end_column is not None
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def fragment(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> str:
        """The text of the node on one line, cut off if it is very long."""
        start, end = self.ends(node)
        text = self.text[start : min(end, start + _LONGEST)]
        if end - start > _LONGEST:
            text += "..."
        return " ".join(text.split()) if "\n" in text else text

    def span(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Span:
        """The place of the node in the file. For a statement with a body: the place of its first
        line."""
        start, end = self.ends(node)
        if isinstance(
            node, ast.FunctionDef | ast.For | ast.If | ast.While | ast.With | ast.ClassDef
        ):
            end = start + len(self.text[start:end].split("\n", 1)[0].rstrip())
        return self._place(start, end)

    def at(self, start: int, end: int) -> Span:
        """The place in the file of part of the text."""
        return self._place(start, end)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts[:-1]

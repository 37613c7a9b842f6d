"""A plain table; on a narrow screen, one value a line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from gradcheck_cli.report.style import DIM, LABEL, Style, plain

_GAP = 3


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], style: Style, indent: int = 0
) -> list[Text]:
    """Columns as wide as their widest cell; stacked where that is wider than the screen."""
    shown = [[plain(cell) for cell in row] for row in rows]
    columns = range(len(header))
    widths = [max(cell_len(row[column]) for row in (header, *shown)) for column in columns]
    if indent + sum(widths) + _GAP * (len(widths) - 1) > style.width:
        return _stacked(header, shown, indent)
    return [
        _line(cells, widths, indent, LABEL if cells is header else "") for cells in (header, *shown)
    ]


def _line(cells: Sequence[str], widths: Sequence[int], indent: int, style: str) -> Text:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return Text(" " * indent + (" " * _GAP).join(padded).rstrip(), style=style)


def _stacked(header: Sequence[str], rows: Sequence[Sequence[str]], indent: int) -> list[Text]:
    width = max(cell_len(name) for name in header[1:])
    lines = []
    for row in rows:
        lines.append(Text(" " * indent).append(row[0], style=LABEL))
        for name, cell in zip(header[1:], row[1:], strict=True):
            lines.append(
                Text(" " * (indent + 2)).append(name.ljust(width + 2), style=DIM).append(cell)
            )
    return lines

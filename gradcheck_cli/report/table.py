"""A plain table; on a narrow screen, one value a line."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.text import Text

from gradcheck_cli.report.style import DIM, LABEL, Style, plain, wrapped

_GAP = 3
_NARROWEST = 18  # cells of a column whose text is wrapped


def table_lines(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: Style,
    indent: int = 0,
    wrap: Collection[int] = (),
) -> list[Text]:
    """Columns as wide as their widest cell.

    Where that is wider than the screen, the columns `wrap` (of prose) are made narrower; if that is
    not enough, the table is stacked, one value a line.
    """
    shown = [[plain(cell) for cell in row] for row in rows]
    columns = range(len(header))
    widths = [max(cell_len(row[column]) for row in (header, *shown)) for column in columns]
    room = style.width - indent - _GAP * (len(widths) - 1)
    while sum(widths) > room and any(widths[column] > _NARROWEST for column in wrap):
        widest = max(wrap, key=lambda column: widths[column])
        widths[widest] -= 1
    if sum(widths) > room:
        return _stacked(header, shown, indent, style.width)
    lines = []
    for cells in (header, *shown):
        parts = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(len(part) for part in parts)):
            line = [part[number] if number < len(part) else "" for part in parts]
            lines.append(_line(line, widths, indent, LABEL if cells is header else ""))
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], indent: int, style: str) -> Text:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return Text(" " * indent + (" " * _GAP).join(padded).rstrip(), style=style)


def _stacked(
    header: Sequence[str], rows: Sequence[Sequence[str]], indent: int, screen: int
) -> list[Text]:
    """One value a line; below its name where the two do not fit beside each other."""
    column = max(cell_len(name) for name in header[1:]) + 2
    margin = " " * (indent + 2)
    lines = []
    for row in rows:
        lines.append(Text(" " * indent).append(row[0], style=LABEL))
        for name, cell in zip(header[1:], row[1:], strict=True):
            if cell_len(margin) + column + cell_len(cell) <= screen:
                lines.append(Text(margin).append(name.ljust(column), style=DIM).append(cell))
            else:
                lines += [Text(margin).append(name, style=DIM), Text(f"{margin}  {cell}")]
    return lines

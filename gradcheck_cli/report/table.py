"""A plain table. On a narrow screen each value has its own line."""

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
    spare: Collection[str] = (),
    titles: Collection[int] = (),
) -> list[Text]:
    """Columns as wide as their widest cell.

    If the table is wider than the screen, the columns `wrap` (with prose) and `titles` (whose
    header is the widest cell) become narrower, down to their longest word. If that is not enough,
    the columns called `spare`, which stand to the right of those, are left out. The last resort is
    a stacked table with one value on each line.
    """
    shown = [[plain(cell) for cell in row] for row in rows]
    columns = range(len(header))
    widths = [max(cell_len(row[column]) for row in (header, *shown)) for column in columns]
    room = style.width - indent - _GAP * (len(widths) - 1)
    least = {column: max(_NARROWEST, _longest_word(header, shown, column)) for column in wrap}
    least.update({column: _longest_word(header, shown, column) for column in titles})
    while sum(widths) > room and (wide := [c for c in least if widths[c] > least[c]]):
        widths[max(wide, key=lambda column: widths[column])] -= 1
    kept = [column for column in columns if header[column] not in spare]
    if sum(widths) > room and len(kept) < len(columns):
        narrow = [[row[column] for column in kept] for row in (header, *rows)]
        return table_lines(narrow[0], narrow[1:], style, indent, wrap, titles=titles)
    if sum(widths) > room:
        return _stacked(header, shown, indent, style.width)
    lines = []
    for cells in (header, *shown):
        parts = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max(len(part) for part in parts)):
            line = [part[number] if number < len(part) else "" for part in parts]
            lines.append(_line(line, widths, indent, LABEL if cells is header else ""))
    return lines


def _longest_word(header: Sequence[str], rows: Sequence[Sequence[str]], column: int) -> int:
    words = (word for row in (header, *rows) for word in row[column].split(" "))
    return max(map(cell_len, words))


def _line(cells: Sequence[str], widths: Sequence[int], indent: int, style: str) -> Text:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return Text(" " * indent + (" " * _GAP).join(padded).rstrip(), style=style)


def _stacked(
    header: Sequence[str], rows: Sequence[Sequence[str]], indent: int, screen: int
) -> list[Text]:
    """One value on each line, or below its name if both do not fit side by side."""
    column = max(cell_len(name) for name in header[1:]) + 2
    margin = " " * (indent + 2)
    lines = []
    for row in rows:
        lines.append(Text(" " * indent).append(row[0], style=LABEL))
        for name, cell in zip(header[1:], row[1:], strict=True):
            if cell_len(margin) + column + cell_len(cell) <= screen:
                lines.append(Text(margin).append(name.ljust(column), style=DIM).append(cell))
            else:
                below = wrapped(cell, max(screen - cell_len(margin) - 2, _NARROWEST))
                lines.append(Text(margin).append(name, style=DIM))
                lines += [Text(f"{margin}  {line}") for line in below]
    return lines

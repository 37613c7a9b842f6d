"""Where a formula fails, in characters: a bar for one number, a grid for two, a table for more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from rich.text import Text

from gradcheck_cli.domain.decimals import shortest
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.search import Search, SearchResult
from gradcheck_cli.report.search_map import (
    Axis,
    Cell,
    Place,
    axes_of,
    cells,
    searches_at,
    thin,
)
from gradcheck_cli.report.style import DIM, Style

_MARGIN = 8
_WIDEST, _ROWS = 72, 12
_MOST_THIN = 4
_MOST_IN_TABLE = 12
_SIGNS: dict[Cell, str] = {"fails": "█", "may fail": "▒", "open": "?", "free": "·"}
_PLAIN: dict[Cell, str] = {"fails": "#", "may fail": "x", "open": "?", "free": "."}
_COLORS: dict[Cell, str] = {"fails": "red", "may fail": "yellow", "open": "blue", "free": "green"}
_WORDS: dict[Cell, str] = {
    "fails": "fails everywhere",
    "may fail": "fails somewhere",
    "open": "not decided",
    "free": "proven",
}


def picture_lines(result: SearchResult, place: Place, style: Style) -> Iterator[Text]:
    """The picture of one engine and dtype; none where nothing is known of any place."""
    searches, axes = searches_at(result, place), axes_of(result, place[1])
    if not axes or all(one.region.boxes is None for one in searches):
        return
    if len(axes) == 1:
        yield from _bar(searches, axes[0], place[1], style)
    elif len(axes) == 2:
        yield from _grid(searches, axes, place[1], style)
    else:
        yield from _table(searches, axes, place[1])


def _bar(searches: Sequence[Search], axis: Axis, dtype: str, style: Style) -> Iterator[Text]:
    """A row for each kind that is not proven absent."""
    left = [one for one in searches if one.verdict != "proven-absent"]
    margin = _MARGIN + max(len(one.kind) for one in left) + 1
    width = _width(style, margin)
    rows = [cells([one], [axis], [width]) for one in left]
    for search, row in zip(left, rows, strict=True):
        yield _line(f"{'':<{_MARGIN}}{search.kind}", margin, row, style)
    yield _labels(axis, dtype, width, margin)
    yield _legend(np.concatenate(rows), margin, style)
    bands = list(thin(searches, axis, width))
    for search, low, high in bands if len(bands) <= _MOST_THIN else ():
        where = shortest(low, dtype)
        if low != high:
            where = f"{where} to {shortest(high, dtype)}"
        words = f"{axis.name} = {where}: {search.kind}, thinner than a cell"
        yield Text(f"{'zoom':<{_MARGIN}}{words}")


def _grid(
    searches: Sequence[Search], axes: Sequence[Axis], dtype: str, style: Style
) -> Iterator[Text]:
    """The first element to the right, the second one upward. With colours, a character has two
    cells, one above the other."""
    across, up = axes
    width, rows = _width(style, _MARGIN), _ROWS
    halves = 2 if style.color and style.unicode else 1
    found = cells(searches, axes, [width, rows * halves]).T[::-1]
    labels = {0: shortest(up.high, dtype), rows - 1: shortest(up.low, dtype)}
    labels[rows // 2] = up.name
    for number in range(rows):
        head = labels.get(number, "")[: _MARGIN - 1].rjust(_MARGIN - 1) + " "
        if halves == 1:
            yield _line(head, _MARGIN, found[number], style)
        else:
            yield _halved(head, found[2 * number], found[2 * number + 1])
    yield _labels(across, dtype, width, _MARGIN)
    yield _legend(found, _MARGIN, style, coloured=halves == 2)


def _table(searches: Sequence[Search], axes: Sequence[Axis], dtype: str) -> Iterator[Text]:
    """The least interval of each element that holds all failures of a kind."""
    for search in searches:
        boxes = search.region.whole
        if search.verdict != "found" or not boxes:
            continue
        yield Text(f"{'within':<{_MARGIN}}{search.kind}")
        for axis in axes[:_MOST_IN_TABLE]:
            low = min(float(np.ravel(box[axis.input][0])[axis.index]) for box in boxes)
            high = max(float(np.ravel(box[axis.input][1])[axis.index]) for box in boxes)
            where = f"{shortest(low, dtype):>16} .. {shortest(high, dtype)}"
            yield Text(f"{'':<{_MARGIN}}{axis.name:<12}{where}")
        if len(axes) > _MOST_IN_TABLE:
            yield Text(f"{'':<{_MARGIN}}and {len(axes) - _MOST_IN_TABLE} more elements")


def _width(style: Style, margin: int) -> int:
    return max(min(style.width - margin - 1, _WIDEST), 10)


def _line(head: str, margin: int, row: Array, style: Style) -> Text:
    signs = _SIGNS if style.unicode else _PLAIN
    line = Text(head.ljust(margin))
    for cell, run in groupby(row.tolist()):
        line.append(signs[cell] * len(list(run)), style=_COLORS[cell])
    return line


def _halved(head: str, upper: Array, lower: Array) -> Text:
    line = Text(head.ljust(_MARGIN))
    for (above, below), run in groupby(zip(upper.tolist(), lower.tolist(), strict=True)):
        line.append("▀" * len(list(run)), style=f"{_COLORS[above]} on {_COLORS[below]}")
    return line


def _labels(axis: Axis, dtype: str, width: int, margin: int) -> Text:
    first, last = shortest(axis.low, dtype), shortest(axis.high, dtype)
    middle = axis.name + (" (in numbers of the dtype)" if axis.ordinals else "")
    room = width - len(first) - len(last)
    middle = middle if len(middle) + 2 <= room else axis.name
    return Text(f"{'':<{margin}}{first}{middle.center(max(room, 1))}{last}", style=DIM)


def _legend(found: Array, margin: int, style: Style, *, coloured: bool = False) -> Text:
    """What the signs mean, or the colours, of those that are there."""
    there = [cell for cell in _WORDS if cell in set(found.ravel().tolist())]
    signs = _SIGNS if style.unicode else _PLAIN
    parts = [f"{_COLORS[cell] if coloured else signs[cell]} {_WORDS[cell]}" for cell in there]
    return Text(f"{'':<{margin}}{'   '.join(parts)}", style=DIM)

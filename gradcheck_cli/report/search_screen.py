"""The screen of a search: a line for each kind, with its witness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
from rich.text import Text

from gradcheck_cli.domain.decimals import shortest
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.report import SearchReport
from gradcheck_cli.domain.search import Search, SearchedFix, SearchResult
from gradcheck_cli.report.search_map import Axis, Cell, Place, axes_of, cells, searches_at, thin
from gradcheck_cli.report.search_words import example, searched_words
from gradcheck_cli.report.style import DIM, Style, plain, wrapped

_MARGIN = 8  # of labels
_NARROWEST = 24
_WORDS = {"found": "found", "proven-absent": "absent", "undecided": "open"}
_COLORS = {"found": "bold red", "proven-absent": "green", "undecided": "yellow"}

_WIDEST, _ROWS = 72, 12
_MOST_THIN = 4
_MOST_IN_TABLE = 12
_SIGNS: dict[Cell, str] = {"fails": "█", "may fail": "▒", "open": "?", "free": "·"}
_PLAIN: dict[Cell, str] = {"fails": "#", "may fail": "x", "open": "?", "free": "."}
_CELL_COLORS: dict[Cell, str] = {
    "fails": "red",
    "may fail": "yellow",
    "open": "blue",
    "free": "green",
}
_CELL_WORDS: dict[Cell, str] = {
    "fails": "fails everywhere",
    "may fail": "fails somewhere",
    "open": "not decided",
    "free": "proven",
}


def search_lines(report: SearchReport, style: Style) -> Iterator[Text]:
    """The results of all specs."""
    for number, result in enumerate(report.results):
        if number:
            yield Text()
        yield from _result_lines(result, style)


def _result_lines(result: SearchResult, style: Style) -> Iterator[Text]:
    if not result.searches:  # the notes say why
        yield Text(plain(result.spec), "bold")
    for place in dict.fromkeys((one.engine, one.dtype) for one in result.searches):
        engine, dtype = place
        yield Text(f"{plain(result.spec)}  {dtype}  {engine}", "bold")
        for search in result.searches:
            if (search.engine, search.dtype) == place:
                yield from _lines(search, style)
        yield from picture_lines(result, place, style)
        yield from (Text(f"rerun   {plain(command)}") for command in _commands(result, place))
        for fix in result.fixes:
            if (fix.engine, fix.dtype) == place:
                yield from _fix_lines(fix, style)
    for note in result.notes:
        yield from _labelled(Text("note    "), note, style)


def _lines(search: Search, style: Style) -> Iterator[Text]:
    words = f"{search.kind:<28}"
    if search.region.predicate:
        words += f"{search.region.predicate}    "
    if search.witness is not None:
        words += example(search.witness, search.dtype)
    label = Text(f"{_WORDS[search.verdict]:<{_MARGIN}}", _COLORS[search.verdict])
    yield from _labelled(label, words, style)


def _labelled(label: Text, words: str, style: Style) -> Iterator[Text]:
    """The label, followed by wrapped words."""
    first, *more = wrapped(words, max(style.width - _MARGIN, _NARROWEST))
    yield label.append(first.rstrip(), "not bold default")
    yield from (Text(" " * _MARGIN + line.rstrip()) for line in more)


def _commands(result: SearchResult, place: tuple[str, str]) -> Iterable[str]:
    """The commands that show the witnesses, each once."""
    mine = (one for one in result.searches if (one.engine, one.dtype) == place)
    return dict.fromkeys(one.repeat for one in mine if one.repeat)


def _fix_lines(fix: SearchedFix, style: Style) -> Iterator[Text]:
    """The formula of a fix, and what is known about it."""
    lines = fix.model.splitlines()
    yield Text(f"fix     {lines[0]}", "bold")
    yield from (Text(f"        {line}", "bold") for line in lines[1:])
    for words in searched_words(fix):
        yield from _labelled(Text(" " * _MARGIN), words, style)


def picture_lines(result: SearchResult, place: Place, style: Style) -> Iterator[Text]:
    """The picture of one engine and dtype. Empty if nothing is known about any place."""
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
    """The first element runs to the right, the second one upward. With colours, a character holds
    two cells, one above the other."""
    across, up = axes
    width, rows = _width(style, _MARGIN), _ROWS
    halves = 2 if style.color and style.unicode else 1
    states = cells(searches, axes, [width, rows * halves]).T[::-1]
    labels = {0: shortest(up.high, dtype), rows - 1: shortest(up.low, dtype)}
    labels[rows // 2] = up.name
    for number in range(rows):
        head = labels.get(number, "")[: _MARGIN - 1].rjust(_MARGIN - 1) + " "
        if halves == 1:
            yield _line(head, _MARGIN, states[number], style)
        else:
            yield _halved(head, states[2 * number], states[2 * number + 1])
    yield _labels(across, dtype, width, _MARGIN)
    yield _legend(states, _MARGIN, style, coloured=halves == 2)


def _table(searches: Sequence[Search], axes: Sequence[Axis], dtype: str) -> Iterator[Text]:
    """For each kind, the smallest interval of each element that contains all failures."""
    for search in searches:
        boxes = search.region.whole
        if search.verdict != "found" or not boxes:
            continue
        yield Text(f"{'within':<{_MARGIN}}{search.kind}")
        for axis in axes[:_MOST_IN_TABLE]:
            lows, highs = zip(*map(axis.ends, boxes), strict=True)
            where = f"{shortest(min(lows), dtype):>16} .. {shortest(max(highs), dtype)}"
            yield Text(f"{'':<{_MARGIN}}{axis.name:<12}{where}")
        if len(axes) > _MOST_IN_TABLE:
            yield Text(f"{'':<{_MARGIN}}and {len(axes) - _MOST_IN_TABLE} more elements")


def _width(style: Style, margin: int) -> int:
    return max(min(style.width - margin - 1, _WIDEST), 10)


def _line(head: str, margin: int, row: Array, style: Style) -> Text:
    signs = _SIGNS if style.unicode else _PLAIN
    line = Text(head.ljust(margin))
    for cell, run in groupby(row.tolist()):
        line.append(signs[cell] * len(list(run)), style=_CELL_COLORS[cell])
    return line


def _halved(head: str, upper: Array, lower: Array) -> Text:
    line = Text(head.ljust(_MARGIN))
    for (above, below), run in groupby(zip(upper.tolist(), lower.tolist(), strict=True)):
        line.append("▀" * len(list(run)), style=f"{_CELL_COLORS[above]} on {_CELL_COLORS[below]}")
    return line


def _labels(axis: Axis, dtype: str, width: int, margin: int) -> Text:
    first, last = shortest(axis.low, dtype), shortest(axis.high, dtype)
    middle = axis.name + (" (in numbers of the dtype)" if axis.ordinals else "")
    room = width - len(first) - len(last)
    middle = middle if len(middle) + 2 <= room else axis.name
    return Text(f"{'':<{margin}}{first}{middle.center(max(room, 1))}{last}", style=DIM)


def _legend(found: Array, margin: int, style: Style, *, coloured: bool = False) -> Text:
    """The meaning of the signs or colours in the picture."""
    there = [cell for cell in _CELL_WORDS if cell in set(found.ravel().tolist())]
    signs = _SIGNS if style.unicode else _PLAIN
    parts = [
        f"{_CELL_COLORS[cell] if coloured else signs[cell]} {_CELL_WORDS[cell]}" for cell in there
    ]
    return Text(f"{'':<{margin}}{'   '.join(parts)}", style=DIM)

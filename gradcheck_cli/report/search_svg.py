"""A picture of where a formula fails, as SVG without scripts: the cells of its domain, and the
error along a line through a witness."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from gradcheck_cli.domain.decimals import shortest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.search import ErrorLine, Search, SearchResult
from gradcheck_cli.report.search_map import Axis, Cell, Place, axes_of, cells, searches_at
from gradcheck_cli.report.style import plain

_WIDTH, _LEFT, _TOP = 480, 190, 40
_ROW, _GRID = 26, 240  # the height of one kind's bar, and of the grid of two elements
_PANEL = 130  # of errors
_COLORS: dict[Cell, str] = {
    "fails": "#c1272d",
    "may fail": "#e69f00",
    "open": "#8da0cb",
    "free": "#2a9d5c",
}
_WORDS: dict[Cell, str] = {
    "fails": "every number fails",
    "may fail": "some number fails",
    "open": "open",
    "free": "proven",
}
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.axis{stroke:#888;fill:none}.error{stroke:#c1272d;"
    "fill:none}@media(prefers-color-scheme:dark){svg{background:#111}text{fill:#ddd}}"
)


def search_svg(result: SearchResult, place: Place) -> str:
    """The picture of one engine and dtype; empty if there is nothing to draw."""
    searches, axes = searches_at(result, place), axes_of(result, place[1])
    if not axes:
        return ""
    top = _TOP
    parts: list[str] = []
    if len(axes) == 2:
        parts += _grid(searches, axes, place[1], top)
        top += _GRID + 44
    elif len(axes) == 1:
        parts += _bars(searches, axes[0], place[1], top)
        top += len(searches) * _ROW + 34
    line = next((one for one in result.lines if (one.engine, one.dtype) == place), None)
    if line is not None and line.numbers:
        axis = next(axis for axis in axes if axis.name == line.name)
        parts += _errors(line, axis, place[1], top + 20)
        top += _PANEL + 56
    parts += _legend(top)
    name = plain(f"{result.spec}  {place[1]}  {place[0]}")
    width = _LEFT + _WIDTH + 30
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {top + 30}" '
        f'width="{width}" height="{top + 30}"><style>{_STYLE}</style><title>{escape(name)}</title>'
    )
    return "\n".join([head, _text(10, 20, name), *parts, "</svg>"]) + "\n"


def _bars(searches: Sequence[Search], axis: Axis, dtype: str, top: int) -> Iterator[str]:
    for number, search in enumerate(searches):
        y = top + number * _ROW
        yield _text(10, y + 14, search.kind)
        found = cells([search], [axis], [_WIDTH])
        yield from _rects(found.tolist(), y, _ROW - 6, 1)
        if search.witness is not None:
            x = _x_position(axis, axis.number(search.witness.values))
            yield _dot(x, y + (_ROW - 6) / 2, search.kind)
    yield from _axis(axis, dtype, top + len(searches) * _ROW)


def _grid(searches: Sequence[Search], axes: Sequence[Axis], dtype: str, top: int) -> Iterator[str]:
    across, up = axes
    side = 4
    found = cells(searches, axes, [_WIDTH // side, _GRID // side]).T[::-1]
    for number, row in enumerate(found.tolist()):
        yield from _rects(row, top + number * side, side, side)
    for search in searches:
        if search.witness is not None:
            x = _x_position(across, across.number(search.witness.values))
            height = up.place(up.number(search.witness.values))
            yield _dot(x, top + _GRID * (1 - height), search.kind)
    yield _text(_LEFT - 90, top + 12, shortest(up.high, dtype))
    yield _text(_LEFT - 90, top + _GRID / 2, up.name)
    yield _text(_LEFT - 90, top + _GRID, shortest(up.low, dtype))
    yield from _axis(across, dtype, top + _GRID + 4)


def _errors(line: ErrorLine, axis: Axis, dtype: str, top: int) -> Iterator[str]:
    """The number of right decimal digits, from none at the bottom to all at the top."""
    most = -math.log10(FORMATS[dtype].unit_roundoff)
    yield _text(10, top + 12, f"right digits: {most:.0f}")
    yield _text(10, top + _PANEL, "none")
    points = []
    for number, error in zip(line.numbers, line.errors, strict=True):
        digits = min(-math.log10(error), most) if error > 0 else most
        x, y = _x_position(axis, number), top + _PANEL * (1 - digits / most)
        points.append(f"{x:.1f},{y:.1f}")
    yield f'<polyline class="error" points="{" ".join(points)}"/>'
    x = _x_position(axis, line.witness)
    yield f'<path class="axis" stroke-dasharray="3" d="M{x:.1f} {top}V{top + _PANEL}"/>'
    yield from _axis(axis, dtype, top + _PANEL + 4)


def _axis(axis: Axis, dtype: str, y: int) -> Iterator[str]:
    yield f'<path class="axis" d="M{_LEFT} {y}H{_LEFT + _WIDTH}"/>'
    yield _text(_LEFT, y + 16, shortest(axis.low, dtype))
    name = f"{axis.name}, in numbers of the dtype" if axis.ordinals else axis.name
    yield _text(_LEFT + _WIDTH / 2, y + 16, name, "middle")
    yield _text(_LEFT + _WIDTH, y + 16, shortest(axis.high, dtype), "end")


def _rects(row: Sequence[Cell], y: float, height: float, side: int) -> Iterator[str]:
    """A rectangle for each run of equal cells."""
    begin = 0
    for end in range(1, len(row) + 1):
        if end == len(row) or row[end] != row[begin]:
            x, width = _LEFT + begin * side, (end - begin) * side
            yield (
                f'<rect x="{x}" y="{y}" width="{width}" height="{height}" '
                f'fill="{_COLORS[row[begin]]}"/>'
            )
            begin = end


def _x_position(axis: Axis, number: float) -> float:
    return _LEFT + axis.place(number) * _WIDTH


def _dot(x: float, y: float, words: str) -> str:
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#000" stroke="#fff">'
    return f"{circle}<title>{escape(words)}</title></circle>"


def _legend(y: int) -> Iterator[str]:
    for number, (cell, words) in enumerate(_WORDS.items()):
        x = _LEFT + number * 125
        yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{_COLORS[cell]}"/>'
        yield _text(x + 17, y + 10, words)


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'

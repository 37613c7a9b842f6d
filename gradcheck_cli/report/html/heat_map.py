"""The error of every entry of a gradient, in ulps on a logarithmic scale, as a map.

A wrong row, column or corner is visible at once. The scale of a dtype runs from one ulp to all of
its digits in LEVELS steps, so equal colours mean equal shares of the digits in every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup, escape

from gradcheck_cli.domain.decimals import PRECISION
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Comparison
from gradcheck_cli.report.entries import bracketed
from gradcheck_cli.report.numbers import FEW, significant
from gradcheck_cli.report.style import plain

LEVELS = 8
NO_NUMBER = "x"  # the level of a nan or an infinity where the truth is a number
UNKNOWN = "u"  # and that of an entry without a truth

_MOST = 64  # cells along an axis: of more, neighbours share one, which has the worst of them
_CELLS = 384  # pixels that the cells of an axis may take
_CELL = (7, 30)  # pixels of one, at least and at most
_TICKS = 8
_WIDE = 6  # pixels of a character of the axes' names


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`svg` is the picture. `words` say the same: how many entries are off, which, and by how
    much."""

    svg: Markup
    words: str


def level(ulps: float, dtype: str) -> str:
    """ "0" for errors up to about one ulp, up to LEVELS if no digit is right; NO_NUMBER for nan and
    infinity."""
    if math.isnan(ulps) or math.isinf(ulps):
        return NO_NUMBER
    if ulps < FEW:
        return "0"
    digits = math.log2(ulps) / (PRECISION[dtype] - 1)
    return str(min(max(math.ceil(digits * LEVELS), 1), LEVELS))


def heat_map(name: str, compared: Comparison, dtype: str) -> HeatMap | None:
    """The map, or None for a single entry and for an unknown truth."""
    if compared.ulps.size < 2 or not np.any(np.isfinite(compared.truth)):
        return None
    grid = _Grid(name, compared)
    words = _words(grid, compared, dtype)
    return HeatMap(_svg(grid, words, dtype), words)


class _Grid:
    """The errors as a table: for a scalar output, an input with two axes keeps its shape and a list
    is broken into rows; all others are shown as a Jacobian. A cell stands for `step` entries along
    each axis."""

    def __init__(self, name: str, compared: Comparison) -> None:
        self.name, self._compared = name, compared
        errors = np.where(np.isfinite(compared.truth), compared.ulps, np.nan)
        lost = np.isfinite(compared.truth) & ~np.isfinite(compared.computed)
        errors = np.where(lost, np.inf, errors)
        self.scalar = not compared.output_shape
        shape = compared.input_shape
        self.rows, self.columns = "output entry", f"entry of {name}"
        if self.scalar and len(shape) >= 2:
            self.rows = f"axis {len(shape) - 2} of {name}"
            self.rows = f"axes 0 to {len(shape) - 2} of {name}" if len(shape) > 2 else self.rows
            self.columns = f"axis {len(shape) - 1} of {name}"
            errors = errors.reshape(-1, shape[-1])
        self.folded = self.scalar and len(shape) < 2 and errors.size > _MOST
        if self.folded:
            self.rows = f"{_MOST} entries of {name} a row"
            rest = np.full(-errors.size % _MOST, np.nan)
            errors = np.concatenate([errors.reshape(-1), rest]).reshape(-1, _MOST)
        elif self.scalar and len(shape) < 2:
            self.rows = ""
        self.whole = errors
        self.step = tuple(math.ceil(count / _MOST) for count in errors.shape)
        self.cells = _worst_of(errors, self.step)

    def label(self, row: int, column: int) -> str:
        """The entry at a place of the whole table, as written in a formula."""
        compared = self._compared
        place = row * self.whole.shape[1] + column if self.scalar else column
        of = bracketed(index_of(place, compared.input_shape), compared.complex_input)
        if self.scalar:
            return self.name + of
        out = bracketed(index_of(row, compared.output_shape), compared.complex_output)
        return f"d output{out} / d {self.name}{of}"


def _worst_of(errors: Array, step: Sequence[int]) -> Array:
    """The largest error of each tile of `step`; nan if none is known."""
    rows, columns = (math.ceil(n / s) for n, s in zip(errors.shape, step, strict=True))
    padded = np.full((rows * step[0], columns * step[1]), -1.0)
    padded[: errors.shape[0], : errors.shape[1]] = np.where(np.isnan(errors), -1.0, errors)
    tiles = padded.reshape(rows, step[0], columns, step[1]).max(axis=(1, 3))
    return np.where(tiles < 0, np.nan, tiles)


def _words(grid: _Grid, compared: Comparison, dtype: str) -> str:
    errors = grid.whole
    known = ~np.isnan(errors)
    off = known & (errors >= FEW)
    count, of = int(off.sum()), int(known.sum())
    if not count:
        largest = significant(float(np.max(errors[known])), 2)
        return f"all {of} entries are right; the largest error is {largest} ulp"
    row, column = index_of(int(np.nanargmax(errors)), errors.shape)
    worst = float(errors[row, column])
    by = "no number" if math.isinf(worst) else f"{_short(worst)} ulp"
    told = f"{count} of {of} entries differ by {FEW:g} ulp or more"
    told += f", {grid.label(row, column)} most: {by}"
    grave = known & (errors >= 2.0 ** (PRECISION[dtype] / 2))
    return told + _lines_of(grave if np.any(grave) else off, known, grid)


def _lines_of(off: Array, known: Array, grid: _Grid) -> str:
    """Rows or columns that are off as a whole, if no other entry is off."""
    if grid.folded or min(off.shape) < 2 or np.all(off[known]):
        return ""
    for axis, noun in ((1, "row"), (0, "column")):
        whole = np.all(off | ~known, axis=axis) & np.any(off, axis=axis)
        lines = [int(i) for i in np.flatnonzero(whole)]
        if lines and int(off.sum()) == int(np.sum(off[whole] if axis else off[:, whole])):
            if len(lines) == 1:
                return f"; {noun} {lines[0]} is wrong throughout"
            names = ", ".join(map(str, lines[:4])) + ("…" if len(lines) > 4 else "")
            return f"; {noun}s {names} are wrong throughout"
    return ""


def _svg(grid: _Grid, words: str, dtype: str) -> Markup:
    rows, columns = grid.cells.shape
    size = min(max(_CELLS // max(rows, columns), _CELL[0]), _CELL[1])
    left, top = 54 if grid.rows else 12, 34
    width = left + max(columns * size, _WIDE * (len(grid.columns) + 2)) + 12
    height = top + max(rows * size, _WIDE * (len(grid.rows) + 2)) + 8
    parts = [
        f'<svg class="heat" role="img" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><title>{_text(words)}</title>',
        f'<text x="{left}" y="12">{_text(grid.columns)} →</text>',
        *_ticks(columns, grid.step[1], size, left, None, top),
    ]
    if grid.rows:
        turned = f'transform="translate(12 {top}) rotate(90)"'
        parts.append(f"<text {turned}>{_text(grid.rows)} →</text>")
        parts += _ticks(rows, grid.step[0], size, top, left - 5, None)
    parts += [
        _cell(grid, r, c, size, left, top, dtype) for r in range(rows) for c in range(columns)
    ]
    return Markup("".join([*parts, "</svg>"]))


def _ticks(
    count: int, step: int, size: int, start: int, x: int | None, top: int | None
) -> Iterator[str]:
    every = max(1, math.ceil(count / _TICKS), math.ceil(22 / size))
    for cell in range(0, count, every):
        middle = start + (cell + 0.5) * size
        if top is not None:
            place = f'x="{middle:.0f}" y="{top - 6}" text-anchor="middle"'
        else:
            place = f'x="{x}" y="{middle + 4:.0f}" text-anchor="end"'
        yield f'<text class="tick" {place}>{cell * step}</text>'


def _cell(grid: _Grid, row: int, column: int, size: int, left: int, top: int, dtype: str) -> str:
    ulps = float(grid.cells[row, column])
    if grid.folded and row * _MOST + column >= grid.cells.size:
        return ""
    mark = UNKNOWN if math.isnan(ulps) else level(ulps, dtype)
    x, y = left + column * size, top + row * size
    told = ""
    if mark not in (UNKNOWN, "0"):
        label = grid.label(row * grid.step[0], column * grid.step[1])
        by = "no number" if math.isinf(ulps) else f"{_short(ulps)} ulp"
        told = f"<title>{_text(f'{label}: {by}')}</title>"
    rect = f'<rect class="h{mark}" x="{x}" y="{y}" width="{size - 1}" height="{size - 1}"'
    cross = ""
    if mark == NO_NUMBER:
        inner = size - 4
        lines = f"M{x + 1.5} {y + 1.5}l{inner} {inner}m0 -{inner}l-{inner} {inner}"
        cross = f'<path class="cross" d="{lines}"/>'
    return f"{rect}>{told}</rect>{cross}" if told else f"{rect}/>{cross}"


def legend(dtype: str) -> Markup:
    """The scale of one dtype as a list: each step with its range of errors."""
    bits = PRECISION[dtype] - 1
    steps = [("0", "right")]
    for step in range(1, LEVELS + 1):
        steps.append((str(step), f"≤ {_short(2.0 ** (bits * step / LEVELS))} ulp"))
    steps[-1] = (str(LEVELS), "all digits wrong")
    steps += [(NO_NUMBER, "nan or inf"), (UNKNOWN, "no truth")]
    items = "".join(
        f'<li><span class="swatch h{mark}" aria-hidden="true"></span>{escape(words)}</li>'
        for mark, words in steps
    )
    return Markup(f'<ul class="legend" aria-label="Scale, {escape(dtype)}">{items}</ul>')


def _short(ulps: float) -> str:
    """Two digits: `90`, `8.2e3`, `4.5e15`."""
    if ulps < 1000:
        return significant(ulps, 2)
    return f"{ulps:.1e}".replace("e+0", "e").replace("e+", "e")


def _text(text: str) -> str:
    return str(escape(plain(text)))

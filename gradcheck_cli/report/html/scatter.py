"""Computed numbers against true numbers, entry by entry, on a scale that shows all sizes.

Both axes are signed logarithms (asinh): linear near zero, logarithmic elsewhere. Right numbers lie
on the diagonal; a factor is a parallel line, a wrong sign a line across it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from markupsafe import Markup, escape

from gradcheck_cli.domain.decimals import PRECISION
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.report import Comparison
from gradcheck_cli.report.numbers import FEW
from gradcheck_cli.report.style import plain

_SIZE = 320
_BOX = (58, 12, 308, 262)  # left, top, right, bottom
_MOST = 600  # points: of more, every other, or fewer


def scatter(name: str, compared: Comparison, dtype: str) -> Markup | None:
    """The picture, or None for fewer than three entries, which a table shows better."""
    truth, computed = compared.truth.reshape(-1), compared.computed.reshape(-1)
    ulps = compared.ulps.reshape(-1)
    seen = np.isfinite(truth) & np.isfinite(computed)
    if int(seen.sum()) < 3:
        return None
    truth, computed, ulps = truth[seen], computed[seen], ulps[seen]
    half = 2.0 ** (PRECISION[dtype] / 2)
    scale = _Scale(np.concatenate([truth, computed]))
    worst_last = np.argsort(ulps, kind="stable")
    every = math.ceil(truth.size / _MOST)
    shown = [i for place, i in enumerate(worst_last[::-1]) if place % every == 0][::-1]
    hidden = int(compared.truth.size - seen.sum())
    words = f"computed against truth, {truth.size} entries of {name}"
    words += f"; {hidden} without a number are not drawn" if hidden else ""
    left, top, right, bottom = _BOX
    parts = [
        f'<svg class="scatter" role="img" viewBox="0 0 {_SIZE} {_SIZE - 12}" width="{_SIZE}" '
        f'height="{_SIZE - 12}"><title>{escape(plain(words))}</title>',
        f'<rect class="plot" x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"/>',
        *_axes(scale),
        f'<path class="diagonal" d="M{left} {bottom}L{right} {top}"/>',
    ]
    for i in shown:
        x, y = (
            scale.at(float(truth[i]), _BOX[0], _BOX[2]),
            scale.at(float(computed[i]), bottom, top),
        )
        mark = "off" if ulps[i] >= half else "near" if ulps[i] >= FEW else "right"
        parts.append(f'<circle class="{mark}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    parts += [
        f'<text x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">truth</text>',
        f'<text transform="translate(12 {(top + bottom) / 2}) rotate(-90)" '
        'text-anchor="middle">computed</text>',
    ]
    return Markup("".join([*parts, "</svg>"]))


class _Scale:
    """asinh(v / unit). The unit is the smallest size in view, but at least LEAST times the largest;
    smaller numbers are drawn near zero."""

    LEAST = 1e-12

    def __init__(self, values: Array) -> None:
        sizes = np.abs(values[values != 0])
        self.largest = float(np.max(sizes, initial=0.0)) or 1.0
        smallest = float(np.min(sizes, initial=self.largest))
        self.unit = max(smallest, self.largest * self.LEAST)
        both = bool(np.any(values < 0)), bool(np.any(values > 0))
        top = self._asinh_position(self.largest) * 1.06
        self.low, self.high = (-top if both[0] else 0.0), (top if both[1] else 0.0)
        if self.low == self.high:
            self.high = top

    def _asinh_position(self, value: float) -> float:
        return (
            math.asinh(value / self.unit)
            if math.isfinite(value / self.unit)
            else math.log(2 * self.largest) - math.log(self.unit)
        )

    def at(self, value: float, start: float, end: float) -> float:
        """The position of a value between the two ends of an axis."""
        part = (self._asinh_position(value) - self.low) / (self.high - self.low)
        return start + part * (end - start)

    def ticks(self) -> Iterator[float]:
        """Zero and powers of ten of both signs, about six ticks in all."""
        first, last = math.ceil(math.log10(self.unit)), math.floor(math.log10(self.largest))
        every = max(1, math.ceil((last - first + 1) / 3))
        powers = [10.0**power for power in range(last, first - 1, -every)] or [self.largest]
        if self.low < 0:
            yield from (-power for power in powers)
        yield 0.0
        if self.high > 0:
            yield from powers


def _axes(scale: _Scale) -> Iterator[str]:
    left, top, right, bottom = _BOX
    for tick in scale.ticks():
        x, y = scale.at(tick, left, right), scale.at(tick, bottom, top)
        word = "0" if tick == 0 else f"{tick:.0e}".replace("e+0", "e").replace("e-0", "e-")
        word = word.replace("e+", "e").removesuffix("e0")
        yield f'<path class="grid" d="M{x:.1f} {top}V{bottom}M{left} {y:.1f}H{right}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{word}</text>'
        yield f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{word}</text>'

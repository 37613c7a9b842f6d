"""The V curve, error against step size on logarithmic scales, in a terminal and as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from rich.text import Text

from gradcheck_cli.domain.curve import Curve, Line
from gradcheck_cli.report.style import DIM, LABEL, Style, plain, wrapped

_MARKS = {"forward": "o", "central": "x"}
_BOTH = "*"
_ROWS = 18
_WIDEST = 73  # columns: more make no better picture
_MARGIN = 8  # columns of the labels beside it
_WHY = (
    "Left: rounding, eps/h. Right: truncation, h for the forward difference, h^2 for the central. "
    "The best step lies between. The usual ones, on the axis, are about sqrt(eps) and cbrt(eps) at "
    "the size of the input."
)


class _Scales:
    """The ranges of the plot as powers of ten: `steps` (low, high) and `errors` (low, high)."""

    def __init__(self, curve: Curve) -> None:
        steps = [math.log10(h) for line in curve.lines for h in line.steps]
        errors = [math.log10(e) for line in curve.lines for e in line.errors if e]
        self.steps = math.floor(min(steps)), math.ceil(max(steps))
        self.errors = math.floor(min(errors, default=-1)), math.ceil(max(errors, default=0))
        if self.errors[0] == self.errors[1]:
            self.errors = self.errors[0] - 1, self.errors[1]

    def place(self, step: float) -> float:
        """The position of a step on the axis, from 0 to 1. Steps outside of the range are placed at
        its ends."""
        left, right = self.steps
        return min(max((math.log10(step) - left) / (right - left), 0.0), 1.0)

    def points(self, line: Line) -> Iterator[tuple[float, float]]:
        """Positions in the unit square, with the origin at the lower left. An error of 0 is on the
        lower edge."""
        for h, error in zip(line.steps, line.errors, strict=True):
            if error is not None:
                yield self.point(h, error)

    def point(self, step: float, error: float) -> tuple[float, float]:
        low, high = self.errors
        y = math.log10(error) if error > 0 else low
        return self.place(step), max((y - low) / (high - low), 0.0)


def curve_lines(curve: Curve, style: Style) -> list[Text]:
    """The picture in characters, followed by its conclusions."""
    scales = _Scales(curve)
    width = max(min(style.width - _MARGIN - 2, _WIDEST), 20)
    grid = [[" "] * width for _ in range(_ROWS)]
    for line in curve.lines:
        for x, y in scales.points(line):
            row, column = round((1 - y) * (_ROWS - 1)), round(x * (width - 1))
            mark = _MARKS[line.scheme]
            grid[row][column] = mark if grid[row][column] in (" ", mark) else _BOTH
    low, high = scales.errors
    labels = {
        round((high - power) / (high - low) * (_ROWS - 1)): f"1e{power}"
        for power in range(low, high + 1, _spacing(high - low))
    }
    lines = [Text(f"{plain(curve.name)}  {curve.dtype}", style=LABEL), Text()]
    lines.append(Text("  relative error of the gradient", style=DIM))
    for number, cells in enumerate(grid):
        label = labels.get(number, "")
        lines.append(Text(f"{label:>{_MARGIN - 1}} |{''.join(cells).rstrip()}"))
    lines += _axis(scales, width, curve.lines)
    lines += [
        Text(),
        *(told for line in curve.lines for told in _step_lines(line, style.width)),
        Text(),
    ]
    return lines + [Text(f"  {words}", style=DIM) for words in wrapped(_WHY, style.width - 4)]


def _axis(scales: _Scales, width: int, marked: Sequence[Line]) -> list[Text]:
    left, right = scales.steps
    rule, labels = ["-"] * width, [" "] * (width + 8)
    for power in range(left, right + 1, _spacing(right - left)):
        column = round((power - left) / (right - left) * (width - 1))
        rule[column] = "+"
        labels[column : column + 5] = f"1e{power}".ljust(5)
    for line in marked:
        rule[round(scales.place(line.usual[0]) * (width - 1))] = _MARKS[line.scheme]
    margin = " " * _MARGIN
    return [Text(f"{margin}+{''.join(rule)}"), Text(f"{margin} {''.join(labels).rstrip()}  step h")]


def _spacing(decades: int) -> int:
    """The number of decades between labels, for about six labels."""
    return max(1, math.ceil(decades / 6))


def _step_lines(line: Line, width: int) -> list[Text]:
    start = f"  {_MARKS[line.scheme]} {line.scheme:<9}"
    if line.best is None:
        return [Text(f"{start}no number at any step")]
    words = f"best h = {_and(line.best)}; usual h = {_and(line.usual)}"
    first, *rest = wrapped(words, max(width - len(start), 24))
    return [Text(start + first), *(Text(" " * len(start) + more) for more in rest)]


def _and(found: tuple[float, float | None]) -> str:
    """`6.1e-06: error 5.3e-11`"""
    step, error = found
    return f"{step:.2g}: {'no number' if error is None else f'error {error:.2g}'}"


# The drawing: sizes in its own units; colours that differ without colour vision, too
# (Okabe and Ito, Color Universal Design, 2008).
_SIZE = (760, 520)
_BOX = (80, 56, 732, 400)  # left, top, right, bottom of the plot
CURVE_STYLE = """
.curve text{font:13px system-ui,sans-serif;fill:var(--ink,#1c2430)}
.curve text.title{font-size:16px;font-weight:600}
.curve .grid{stroke:var(--line,#dde2e8)}
.curve .axes{fill:none;stroke:var(--line-strong,#8a94a3)}
.curve .drawn{fill:none;stroke-width:1.5}
.curve .usual{stroke-dasharray:4 4}
.curve .best{fill:none}
.curve .key{stroke-width:3}
.curve .forward{stroke:var(--forward,#0072b2)}
.curve .central{stroke:var(--central,#d55e00)}
.curve circle.forward.point{fill:var(--forward,#0072b2)}
.curve circle.central.point{fill:var(--central,#d55e00)}
"""
"""Of a page in which the picture stands."""
_ALONE = """
svg{background:#fff;color-scheme:light dark}
@media (prefers-color-scheme:dark){svg{background:#14181f;--ink:#e3e8ef;--line:#2d3541;
--line-strong:#7d8898;--forward:#56b4e9;--central:#f0883e}}
"""


def curve_svg(curve: Curve) -> str:
    """The picture as a file of its own, for light and dark screens."""
    return curve_picture(curve).replace(">", f"><style>{CURVE_STYLE}{_ALONE}</style>", 1) + "\n"


def curve_picture(curve: Curve) -> str:
    """The picture as part of a page that has CURVE_STYLE."""
    scales = _Scales(curve)
    width, height = _SIZE
    title = escape(plain(f"{curve.name}: error of a finite difference, {curve.dtype}"))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curve" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{title}</title>",
        f'<text class="title" x="{_BOX[0]}" y="32">{title}</text>',
        *_grid(scales),
    ]
    for number, line in enumerate(curve.lines):
        parts += _curve_svg(scales, line, number)
    return "\n".join([*parts, "</svg>"])


def _at(x: float, y: float) -> tuple[float, float]:
    left, top, right, bottom = _BOX
    return left + x * (right - left), bottom - y * (bottom - top)


def _grid(scales: _Scales) -> Iterator[str]:
    left, top, right, bottom = _BOX
    low, high = scales.steps
    for power in range(low, high + 1, _spacing(high - low)):
        x, _ = _at((power - low) / (high - low), 0)
        yield f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{_power(power)}</text>'
    low, high = scales.errors
    for power in range(low, high + 1, _spacing(high - low)):
        _, y = _at(0, (power - low) / (high - low))
        yield f'<path class="grid" d="M{left} {y:.1f}H{right}"/>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>'
    yield f'<path class="axes" d="M{left} {top}V{bottom}H{right}"/>'
    middle = (left + right) / 2
    yield f'<text x="{middle:.0f}" y="{bottom + 44}" text-anchor="middle">step h</text>'
    turned = f"translate(22 {(top + bottom) / 2:.0f}) rotate(-90)"
    words = "relative error of the gradient"
    yield f'<text transform="{turned}" text-anchor="middle">{words}</text>'


def _power(exponent: int) -> str:
    return f'10<tspan dy="-6" font-size="9">{exponent}</tspan>'


def _curve_svg(scales: _Scales, line: Line, number: int) -> Iterator[str]:
    scheme = line.scheme
    places: Sequence[tuple[float, float]] = [_at(x, y) for x, y in scales.points(line)]
    if places:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline class="drawn {scheme}" points="{path}"/>'
    for x, y in places:
        yield f'<circle class="point {scheme}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'
    words = f"{scheme} difference"
    if line.best is not None:
        words += f": best h = {_and(line.best)}; usual h = {_and(line.usual)}"
        x, y = _at(scales.place(line.usual[0]), 0)
        yield f'<path class="usual {scheme}" d="M{x:.1f} {y}V{_BOX[1]}"/>'
        x, y = _at(*scales.point(*line.best))
        yield f'<circle class="best {scheme}" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'
    x, y = _BOX[0], 474 + 22 * number
    yield f'<path class="key {scheme}" d="M{x} {y}h24"/>'
    yield f'<text x="{x + 32}" y="{y + 4}">{words}</text>'

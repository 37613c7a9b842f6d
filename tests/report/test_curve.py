"""The picture in characters and as SVG."""

import xml.etree.ElementTree as ElementTree

from gradcheck_cli.domain.curve import Curve, Line
from gradcheck_cli.report.curve import curve_lines, curve_svg
from gradcheck_cli.report.style import Style

STEPS = [10.0**power for power in range(-8, 1)]
ERRORS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
CURVE = Curve(
    "a <b>",
    "float32",
    (Line("forward", STEPS, ERRORS), Line("central", STEPS, [None, *ERRORS[1:8], 0.0])),
)


def drawn(width: int) -> list[str]:
    return [line.plain for line in curve_lines(CURVE, Style(width=width))]


def test_the_v_stands_on_its_best_step() -> None:
    rows = [line for line in drawn(100) if "|" in line]
    columns = {row: line.index("o") for row, line in enumerate(rows) if "o" in line}
    assert next(iter(columns.values())) == 9  # the largest error at the smallest step
    bottom = max(row for row, line in enumerate(rows) if "*" in line)
    assert "  o forward  best at h = 0.0001: error 1e-05" in drawn(100)
    assert "  x central  best at h = 1: error 0" in drawn(100)  # None is nowhere
    assert abs(rows[bottom].index("*") - (9 + 36)) <= 1  # 1e-4 is half way from 1e-8 to 1


def test_a_narrow_terminal_is_kept_to() -> None:
    assert max(map(len, drawn(50))) <= 60  # the words at the axis stand beside it


def test_the_svg_is_well_formed_and_has_every_point() -> None:
    root = ElementTree.fromstring(curve_svg(CURVE))
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "a <b>: error of a difference quotient, float32"
    dots = [c for c in root.findall(f"{space}circle") if c.get("r") == "2.5"]
    assert len(dots) == 9 + 8
    box = [float(number) for number in root.get("viewBox").split()]
    assert all(0 <= float(dot.get("cx")) <= box[2] for dot in dots)
    assert all(0 <= float(dot.get("cy")) <= box[3] for dot in dots)

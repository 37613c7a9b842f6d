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
    (
        Line("forward", STEPS, ERRORS, (1e-6, 1e-3)),
        Line("central", STEPS, [None, *ERRORS[1:8], 0.0], (100.0, None)),
    ),
)


def drawn(width: int) -> list[str]:
    return [line.plain for line in curve_lines(CURVE, Style(width=width))]


def test_the_v_stands_on_its_best_step() -> None:
    rows = [line for line in drawn(100) if "|" in line]
    columns = {row: line.index("o") for row, line in enumerate(rows) if "o" in line}
    assert next(iter(columns.values())) == 9  # the largest error at the smallest step
    bottom = max(row for row, line in enumerate(rows) if "*" in line)
    assert "  o forward  best h = 0.0001: error 1e-05; usual h = 1e-06: error 0.001" in drawn(100)
    assert "  x central  best h = 1: error 0; usual h = 1e+02: no number" in drawn(100)
    assert abs(rows[bottom].index("*") - (9 + 36)) <= 1  # 1e-4 is half way from 1e-8 to 1


def test_the_usual_steps_are_marked_on_the_axis() -> None:
    (axis,) = [line for line in drawn(100) if line.lstrip().startswith("+")]
    assert axis.index("o") == 9 + 18  # 1e-6 is a quarter of the way
    assert axis.index("x") == len(axis) - 1  # beyond the end


def test_a_narrow_terminal_is_kept_to() -> None:
    assert max(map(len, drawn(50))) <= 60  # the words at the axis stand beside it


def test_the_svg_is_well_formed_and_has_every_point() -> None:
    root = ElementTree.fromstring(curve_svg(CURVE))
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "a <b>: error of a finite difference, float32"
    dashed = [
        float(p.get("d")[1:].split()[0]) for p in root.iter() if "usual" in (p.get("class") or "")
    ]
    assert dashed == [243.0, 732.0]  # a quarter of the way from 80 to 732; beyond the end
    dots = [c for c in root.findall(f"{space}circle") if c.get("r") == "2.5"]
    assert len(dots) == 9 + 8
    box = [float(number) for number in root.get("viewBox").split()]
    assert all(0 <= float(dot.get("cx")) <= box[2] for dot in dots)
    assert all(0 <= float(dot.get("cy")) <= box[3] for dot in dots)

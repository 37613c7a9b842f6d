"""The picture of a computation graph: every box apart from the others, every edge downwards."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import numpy as np
import pytest

from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import INPUT, Node, Program
from gradcheck_cli.report.graph_svg import MOST, graph_file, graph_svg

HERE = Span(1, 1, 1, 2)
SVG = "{http://www.w3.org/2000/svg}"


def _program(*args: tuple[int, ...], label: str = "f") -> Program:
    """Node i takes args[i]; those that take nothing are inputs, the last is the output."""
    nodes = tuple(
        Node(label if taken else INPUT, taken, {}, HERE, "text", name=None if taken else f"x{i}")
        for i, taken in enumerate(args)
    )
    inputs = {f"x{i}": i for i, taken in enumerate(args) if not taken}
    return Program(nodes, inputs, (len(nodes) - 1,), "")


DIAMONDS = _program((), (), (0, 1), (2,), (2, 1), (3, 4), (5, 0), (6, 6))


def _drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize("numbers", [False, True])
def test_boxes_are_apart_and_inside(numbers: bool) -> None:
    values = {i: np.full((2, 2), 1.5 * i) for i in range(8)} if numbers else {}
    drawn = _drawn(graph_svg(Graph(DIAMONDS, values=values, derivatives=values)))
    left, top, width, height = map(float, drawn.attrib["viewBox"].split())
    boxes = [
        [float(rect.attrib[key]) for key in ("x", "y", "width", "height")]
        for rect in drawn.iter(f"{SVG}rect")
    ]
    assert len(boxes) == 8
    for x, y, w, h in boxes:
        assert left <= x <= x + w <= left + width
        assert top <= y <= y + h <= top + height
    for (x, y, w, h), (x2, y2, w2, h2) in combinations(boxes, 2):
        assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_edges_go_down_and_long_ones_pass_beside_boxes() -> None:
    drawn = _drawn(graph_svg(Graph(DIAMONDS)))
    edges = [
        path.attrib["d"] for path in drawn.iter(f"{SVG}path") if path.attrib["class"] == "edge"
    ]
    assert len(edges) == 10  # an argument that is taken twice is one line
    for edge in edges:
        ends = re.findall(r"[ML]\S+ (\S+?)(?=[A-Z]|$)|C\S+ \S+ \S+ \S+ \S+ (\S+?)(?=[A-Z]|$)", edge)
        heights = [float(a or b) for a, b in ends]
        assert heights == sorted(heights)


def test_what_is_blamed_or_no_number_is_marked() -> None:
    graph = Graph(DIAMONDS, values={2: np.array(np.inf), 3: np.array(1.0)})
    svg = graph_svg(graph, blamed={5})
    assert svg.count('class="node blamed"') == 1
    assert svg.count('class="node operation bad"') == 1
    assert "number value flag" in svg


def test_names_are_text_and_no_markup() -> None:
    svg = graph_svg(Graph(_program((), (0,), label="<script>&\x1b[31m")), title="<b>")
    drawn = _drawn(svg)
    assert "<script>&\\x1b[31m" in "".join(drawn.itertext())
    assert drawn[0].text == "<b>: computation graph of 2 nodes"


def test_of_a_large_graph_the_neighbourhood_of_the_blamed_node() -> None:
    chain = _program((), *(((i,)) for i in range(500)))
    svg = graph_svg(Graph(chain), blamed={250})
    assert f"{501 - MOST} more are not drawn" in svg
    assert svg.count('class="node blamed"') == 1
    assert svg.count("<rect") == MOST


def test_a_file_has_its_style_for_light_and_dark() -> None:
    text = graph_file("f", Graph(DIAMONDS))
    _drawn(text)
    assert "prefers-color-scheme:dark" in text

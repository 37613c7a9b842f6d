"""The computation graph as a picture: layers of operations from the inputs at the top to the
output. Values flow down, and derivatives back up (reverse mode).

The layout follows Sugiyama, Tagawa and Toda (Methods for visual understanding of hierarchical
system structures, 1981): layers by the longest path, orders by barycentres, dummies on long edges.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from html import escape
from typing import TYPE_CHECKING

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.report.graph import Card, cards, drawn_nodes
from gradcheck_cli.report.style import plain

if TYPE_CHECKING:
    from gradcheck_cli.domain.graph import Graph

_CHARACTER = 7.4  # width of one, in pixels, at the font's size of 12
_LONGEST = 22  # characters of a label
_BOX = 30  # height
_GAP = 26  # between boxes of a layer
_SWEEPS = 6
_EDGE = 5  # half the width of a dummy
MOST = 80
"""Operations in one picture: of more, those nearest to the blamed ones or to the output."""

STYLE = """
.graph text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:var(--ink,#1c2430)}
.graph .node{fill:var(--card,#fff);stroke:var(--line-strong,#8a94a3);stroke-width:1.2}
.graph .input{fill:var(--tint,#e8effa);stroke:var(--accent,#2f6fd0)}
.graph .constant{fill:none;stroke:none}
.graph .bad{stroke:var(--error,#c62828);stroke-width:1.8}
.graph .blamed{fill:var(--error-tint,#fdecea);stroke:var(--error,#c62828);stroke-width:2.4}
.graph .edge{fill:none;stroke:var(--line-strong,#8a94a3);stroke-width:1.2}
.graph .arrow{fill:var(--line-strong,#8a94a3)}
.graph text.number{font-size:11px}
.graph text.value{fill:var(--accent,#2f6fd0)}
.graph text.derivative{fill:var(--derivative,#9a5b00)}
.graph text.flag{fill:var(--error,#c62828);font-weight:700}
"""
_ALONE = """
svg{background:#fff;color-scheme:light dark}
@media (prefers-color-scheme:dark){svg{background:#14181f;--ink:#e3e8ef;--card:#1c222c;
--line-strong:#7d8898;--tint:#1b2b44;--accent:#7fb0ff;--error:#ff7b72;--error-tint:#3b1d1f;
--derivative:#e2b35c}}
"""


@dataclass(slots=True)
class _Vertex:
    """A box, or a dummy on an edge that passes a layer (`card` is None)."""

    layer: int
    width: float
    card: Card | None = None
    above: list[_Vertex] = field(default_factory=list)
    below: list[_Vertex] = field(default_factory=list)
    x: float = 0.0


def graph_file(name: str, graph: Graph) -> str:
    """The picture as a file of its own, for light and dark screens."""
    picture = graph_svg(graph, title=name)
    return picture.replace(">", f"><style>{STYLE}{_ALONE}</style>", 1) + "\n"


def graph_svg(graph: Graph, blamed: Collection[int] = (), title: str = "") -> str:
    """The picture as part of a page that has STYLE."""
    shown, hidden = _nearest(graph, blamed)
    boxes = _boxes(graph, shown)
    layers = _layers(boxes, graph)
    numbers = any(box.card and (box.card.value or box.card.derivative) for box in boxes.values())
    room = 36 if numbers else 0  # for what stands below a box
    pitch = _BOX + 30 + room
    _arrange(layers)
    left = min(v.x - v.width / 2 for layer in layers for v in layer)
    right = max(v.x + max(v.width / 2, _label_width(v)) for layer in layers for v in layer)
    width, height = right - left + 24, (len(layers) - 1) * pitch + _BOX + room + 24
    words = f"{title or 'formula'}: computation graph of {len(shown)} nodes"
    words += f"; {hidden} more are not drawn" if hidden else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" '
        f'viewBox="{left - 12:.0f} -12 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}">',
        f"<title>{_text(words)}</title>",
        *(_edge(box, below, pitch) for box in boxes.values() for below in box.below),
    ]
    for index, box in boxes.items():
        parts += _box(box, pitch, index in blamed)
    return "\n".join([*parts, "</svg>"])


def _nearest(graph: Graph, blamed: Collection[int]) -> tuple[list[int], int]:
    """The nodes to draw, and the number of nodes that are left out."""
    there = drawn_nodes(graph)
    if len(there) <= MOST:
        return there, 0
    nodes = graph.program.nodes
    near: dict[int, set[int]] = {index: set(nodes[index].args) for index in there}
    for index in there:
        for arg in nodes[index].args:
            near[arg].add(index)
    reached = [index for index in there if index in blamed] or [there[-1]]
    for index in reached:  # grows: breadth first
        reached += sorted(near[index] - set(reached))
        if len(reached) >= MOST:
            break
    return sorted(reached[:MOST]), len(there) - min(MOST, len(reached))


def _boxes(graph: Graph, shown: Collection[int]) -> dict[int, _Vertex]:
    """A box for each node, in the layer below all its operands. Leaves are placed above their first
    user."""
    node_cards, nodes = cards(graph), graph.program.nodes
    boxes: dict[int, _Vertex] = {}
    for index in shown:
        args = [boxes[arg] for arg in nodes[index].args if arg in boxes]
        layer = max((box.layer + 1 for box in args), default=0)
        label = _short(node_cards[index].label)
        boxes[index] = _Vertex(layer, max(len(label) * _CHARACTER + 22, 44.0), node_cards[index])
    for index in sorted(shown, reverse=True):
        if not any(arg in boxes for arg in nodes[index].args):
            users = [i for i in shown if index in nodes[i].args]
            boxes[index].layer = max(min((boxes[i].layer for i in users), default=1) - 1, 0)
    return boxes


def _layers(boxes: Mapping[int, _Vertex], graph: Graph) -> list[list[_Vertex]]:
    """The vertices of each layer, with dummies, joined by edges."""
    layers: list[list[_Vertex]] = [[] for _ in range(max(b.layer for b in boxes.values()) + 1)]
    for box in boxes.values():
        layers[box.layer].append(box)
    for index, box in boxes.items():
        for arg in dict.fromkeys(graph.program.nodes[index].args):
            if arg not in boxes:
                continue
            last = boxes[arg]
            for layer in range(last.layer + 1, box.layer):
                dummy = _Vertex(layer, 2 * _EDGE)
                layers[layer].append(dummy)
                _join(last, dummy)
                last = dummy
            _join(last, box)
    return layers


def _join(upper: _Vertex, lower: _Vertex) -> None:
    upper.below.append(lower)
    lower.above.append(upper)


def _arrange(layers: list[list[_Vertex]]) -> None:
    """Orders each layer by the mean position of its neighbours, alternately downwards and upwards,
    and places its boxes as close to them as possible."""
    for layer in layers:
        _place(layer, [float(place) for place in range(len(layer))])
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_middle(v.above if sweep % 2 == 0 else v.below, v.x) for v in layer]
            order = sorted(range(len(layer)), key=lambda place, w=wanted: w[place])  # type: ignore[misc]
            layer[:] = [layer[place] for place in order]
            _place(layer, [wanted[place] for place in order])


def _middle(neighbours: list[_Vertex], otherwise: float) -> float:
    if not neighbours:
        return otherwise
    return math.fsum(vertex.x for vertex in neighbours) / len(neighbours)


def _place(layer: list[_Vertex], wanted: list[float]) -> None:
    """Places the boxes of a layer from left to right without overlap, with the mean at the wanted
    position."""
    x = -math.inf
    for vertex, middle in zip(layer, wanted, strict=True):
        vertex.x = max(middle, x + vertex.width / 2)
        x = vertex.x + max(vertex.width / 2, _label_width(vertex)) + _GAP
    off = math.fsum(v.x - w for v, w in zip(layer, wanted, strict=True)) / max(len(layer), 1)
    for vertex in layer:
        vertex.x -= off


def _label_width(vertex: _Vertex) -> float:
    """How far the numbers below a box extend to the right of its middle."""
    longest = max(len(vertex.card.value), len(vertex.card.derivative)) if vertex.card else 0
    return 10 + 6.8 * (2 + longest) if longest else 0.0


def _edge(upper: _Vertex, lower: _Vertex, pitch: float) -> str:
    """The whole edge from a box through its dummies to the next box."""
    x, y = upper.x, upper.layer * pitch + _BOX
    path = [f"M{x:.1f} {y:.1f}"]
    while True:
        end = lower.layer * pitch
        middle = end - 16
        path.append(f"L{x:.1f} {max(middle - 26, y):.1f}")
        path.append(
            f"C{x:.1f} {middle:.1f} {lower.x:.1f} {middle - 10:.1f} {lower.x:.1f} {end:.1f}"
        )
        if lower.card is not None:
            break
        x, y = lower.x, end + _BOX
        path.append(f"V{y:.1f}")
        (lower,) = lower.below
    tip = f"M{lower.x - 4:.1f} {end - 7:.1f}h8l-4 7z"
    return f'<path class="edge" d="{"".join(path)}"/><path class="arrow" d="{tip}"/>'


def _box(box: _Vertex, pitch: float, blamed: bool) -> Iterator[str]:
    card = box.card
    assert card is not None
    x, y = box.x - box.width / 2, box.layer * pitch
    kind = "blamed" if blamed else card.kind if card.finite else f"{card.kind} bad"
    about = [card.text or card.label, card.shape and f"shape {card.shape}"]
    about += [
        card.value and f"value {card.value}",
        card.derivative and f"derivative {card.derivative}",
    ]
    yield f"<g><title>{_text('; '.join(part for part in about if part))}</title>"
    yield (
        f'<rect class="node {kind}" x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" '
        f'height="{_BOX}" rx="{_BOX / 2 if card.kind == "input" else 5:.0f}"/>'
    )
    label = _text(_short(card.label))
    yield f'<text x="{box.x:.1f}" y="{y + 19:.1f}" text-anchor="middle">{label}</text>'
    numbers = [("value", "↓", card.value), ("derivative", "↑", card.derivative)]
    for row, (name, sign, number) in enumerate(part for part in numbers if part[2]):
        flag = " flag" if any(word in number for word in ("nan", "inf")) else ""
        place = f'x="{box.x + 9:.1f}" y="{y + _BOX + 15 + 14 * row:.1f}"'
        yield f'<text class="number {name}{flag}" {place}>{sign} {_text(number)}</text>'
    yield "</g>"


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def _text(text: str) -> str:
    return escape(plain(text))

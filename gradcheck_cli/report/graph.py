"""The computation graph of a program with its numbers: as a tree, for Graphviz, and for Mermaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.text import Text

from gradcheck_cli.domain.program import CONSTANT, INFIX, INPUT, Node
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.report.numbers import significant
from gradcheck_cli.report.style import LABEL, Style, plain

if TYPE_CHECKING:
    from gradcheck_cli.domain.dtypes import Array
    from gradcheck_cli.domain.graph import Graph

SIGNS = {**INFIX, "negative": "-"}
_DIGITS = 4
_SHOWN = 3  # numbers of an array that are written out; of more, the smallest and the largest
_LONGEST = 40  # characters of a formula beside its operation
_BEND, _TEE, _BAR = ("└─ ", "├─ ", "│  ")
_BETWEEN = 3  # cells from one column to the next
_ASCII = str.maketrans("└├│─", "`|||")

Kind = Literal["input", "constant", "operation"]


@dataclass(frozen=True, slots=True)
class Card:
    """One node as it is shown. `value` and `derivative` are empty if there are no numbers."""

    kind: Kind
    label: str
    text: str
    shape: str
    value: str
    derivative: str
    finite: bool


def cards(graph: Graph) -> list[Card]:
    """A card for each node of the program."""
    return [_card(graph, index, node) for index, node in enumerate(graph.program.nodes)]


def drawn_nodes(graph: Graph) -> list[int]:
    """The nodes that the outputs depend on, in topological order."""
    nodes, seen = graph.program.nodes, set[int]()
    waiting = [index for index in graph.program.outputs if index is not None]
    while waiting:
        index = waiting.pop()
        if index not in seen:
            seen.add(index)
            waiting.extend(nodes[index].args)
    return sorted(seen)


def word_of_derivatives(graph: Graph) -> str:
    """The kind of the derivatives, and the entry that they belong to: "cotangents of output entry
    2"."""
    if not graph.derivatives:
        return ""
    if graph.mode == "forward":
        return f"tangents along entry {graph.column} of {graph.input}"
    shape = graph.program.result.shape
    if graph.row is None:
        return "cotangents of the sum of the output" if shape else "cotangents of the output"
    return f"cotangents of output entry {graph.row}" if shape else "cotangents of the output"


def _card(graph: Graph, index: int, node: Node) -> Card:
    value, derivative = graph.values.get(index), graph.derivatives.get(index)
    numbers = [array for array in (value, derivative) if array is not None]
    return Card(
        kind="input" if node.op == INPUT else "constant" if node.op == CONSTANT else "operation",
        label=_label(node),
        text="" if node.op in (INPUT, CONSTANT) else " ".join(node.text.split()),
        shape="x".join(map(str, node.shape)),
        value="" if value is None or node.op == CONSTANT else summary(value),
        derivative="" if derivative is None else summary(derivative),
        finite=all(_is_finite(array) for array in numbers),
    )


def _label(node: Node) -> str:
    if node.op == INPUT:
        return node.name or "input"
    if node.op == CONSTANT:
        return str(node.value)
    op = node.custom.name if node.custom else SIGNS.get(node.op, node.op)
    return f"{node.name} = {op}" if node.name else op


def summary(array: Array) -> str:
    """`2.69e+43`, `[1, 2, 3]`, or `-1.5 … 3, 2 nan` if there are more numbers."""
    flat = [float(number) or 0.0 for number in array.reshape(-1).tolist()]  # -0 is 0
    if array.ndim == 0:
        return significant(flat[0], _DIGITS)
    if len(flat) <= _SHOWN:
        return f"[{', '.join(significant(number, _DIGITS) for number in flat)}]"
    numbers = [number for number in flat if number == number]
    parts = []
    if numbers:
        low, high = (significant(end, _DIGITS) for end in (min(numbers), max(numbers)))
        parts.append(low if low == high else f"{low} … {high}")
    if len(numbers) < len(flat):
        parts.append(f"{len(flat) - len(numbers)} nan")
    return ", ".join(parts)


def _is_finite(array: Array) -> bool:
    return all(abs(number) < float("inf") for number in array.reshape(-1).tolist())


def graph_lines(name: str, graph: Graph, style: Style) -> list[Text]:
    """The tree from the output down. Nodes that are used several times are written out once."""
    told = [word for word in (graph.dtype, word_of_derivatives(graph)) if word]
    found = cards(graph)
    derivative = "tangent" if graph.mode == "forward" else "cotangent"
    columns = ["operation", "value", derivative, "shape", "formula"]
    rows = []
    for branch, index in _tree(graph):
        card = found[index] if index is not None else None
        cells = ["", "", "", ""]
        if card is not None:
            cells = [card.value, card.derivative, card.shape and f"[{card.shape}]", card.text]
            cells = list(map(plain, cells))
        rows.append([branch if style.unicode else branch.translate(_ASCII), *cells])
    kept = [place for place in range(5) if not place or any(row[place] for row in rows)]
    lines = [[columns[place] for place in kept]]
    lines += [[_short(row[place], style) for place in kept] for row in rows]
    widths = [max(cell_len(row[place]) for row in lines) for place in range(len(kept))]
    while len(widths) > 1 and 2 + sum(width + _BETWEEN for width in widths) > style.width:
        widths.pop()  # the formula first
    title = Text("  ".join([plain(name), *told]), style=LABEL)
    return [title, Text(), *(_aligned(row, widths) for row in lines)]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> Text:
    cells = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False)
    )
    return Text("  " + (" " * _BETWEEN).join(cells).rstrip())


def _short(text: str, style: Style) -> str:
    short = len(text) <= _LONGEST or _BEND in text or _TEE in text
    return text if short else text[: _LONGEST - 1] + style.dots


def _tree(graph: Graph) -> Iterator[tuple[str, int | None]]:
    """Each row of the tree with its node; None if the row only names a node again."""
    found, nodes = cards(graph), graph.program.nodes
    uses = Counter(arg for index in drawn_nodes(graph) for arg in nodes[index].args)
    numbers: dict[int, int] = {}  # of what is used more than once, as it is met
    waiting = [(index, "", "") for index in reversed(graph.program.outputs) if index is not None]
    while waiting:
        index, first, rest = waiting.pop()
        label, args = plain(found[index].label), nodes[index].args
        if uses[index] > 1 and args:
            again = index in numbers
            number = numbers.setdefault(index, len(numbers) + 1)
            if again:
                yield f"{first}#{number} again", None
                continue
            label += f"  #{number}"
        yield first + label, index
        ends = [(_TEE, _BAR)] * (len(args) - 1) + [(_BEND, "   ")]
        below = [(arg, rest + b, rest + m) for arg, (b, m) in zip(args, ends, strict=False)]
        waiting += reversed(below)


def graph_dot(name: str, graph: Graph) -> str:
    """The graph for Graphviz. The label of an edge is the number that flows along it."""
    node_cards = cards(graph)
    lines = [f"digraph {_dot(name)} {{", "  node [shape=box, fontname=monospace];"]
    shapes = {"input": "ellipse", "constant": "plaintext", "operation": "box"}
    for index in drawn_nodes(graph):
        card = node_cards[index]
        mark = "" if card.finite else ", color=red"
        lines.append(f"  n{index} [label={_dot(card.label)}, shape={shapes[card.kind]}{mark}];")
    for index in drawn_nodes(graph):
        for arg in graph.program.nodes[index].args:
            lines.append(f"  n{arg} -> n{index} [label={_dot(*_flow(node_cards[arg]))}];")
    return "\n".join([*lines, "}"]) + "\n"


def graph_mermaid(graph: Graph) -> str:
    """The graph for Mermaid, which GitHub and GitLab draw in Markdown."""
    node_cards = cards(graph)
    lines = ["flowchart TD"]
    for index in drawn_nodes(graph):
        card = node_cards[index]
        left, right = ("([", "])") if card.kind == "input" else ("[", "]")
        lines.append(f'  n{index}{left}"{_mermaid(card.label)}"{right}')
    for index in drawn_nodes(graph):
        for arg in graph.program.nodes[index].args:
            label = " | ".join(map(_mermaid, _flow(node_cards[arg])))
            middle = f'-->|"{label}"|' if label else "-->"
            lines.append(f"  n{arg} {middle} n{index}")
    lines += [
        f"  style n{index} stroke:#c00"
        for index in drawn_nodes(graph)
        if not node_cards[index].finite
    ]
    return "\n".join(lines) + "\n"


def _flow(card: Card) -> list[str]:
    """The numbers that flow along an edge from this node: its value, and the derivative."""
    return [part for part in (card.value, card.derivative) if part]


def _dot(*lines: str) -> str:
    escaped = (plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


def _mermaid(text: str) -> str:
    """The text with special characters as entities, which is what Mermaid can read."""
    return "".join(c if c.isalnum() or c in " .,+-_=" else f"#{ord(c)};" for c in plain(text))

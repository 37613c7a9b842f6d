"""A formula as a graph of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from gradcheck_cli.domain.place import Source, Span
from gradcheck_cli.domain.records import dataclass, replace

INPUT = "input"
CONSTANT = "constant"
CUSTOM = "custom_gradient"

INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "power": "**",
    "matmul": "@",
}
"""Operations that are written between their arguments, where a report shows them."""


@dataclass(frozen=True, slots=True)
class CustomGradient:
    """A function whose derivative the user states.

    `forward` has one output and as many inputs as the call has arguments. `vjp` takes the
    upstream cotangent and then the same arguments and gives one output an argument (a `None`
    in `Program.outputs` where the user returned None). `jvp`, if stated, takes a tangent an
    argument and then the arguments, and gives the tangent of the output.
    """

    name: str
    forward: Program
    vjp: Program
    jvp: Program | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    `op` is the canonical name of a row of the op table, or INPUT (then `name` is the input),
    CONSTANT (then `value` is a Python bool, int or float, not yet rounded to any dtype) or
    CUSTOM (then `custom` holds the rule). `args` are indices of earlier nodes. `keywords` are
    the static arguments, e.g. {"axis": 0}; for `getitem`, {"index": (...)} of int, slice, None
    and Ellipsis. `text` is the stretch of the formula, `name` the name that it was assigned to.
    `shape` and `kind` ("float", "bool" or "int") are what the node's value has; `wants` are the
    kinds in which the operation takes its arguments, which may be of a lower one. `source` is the
    file in which `span` is, where that is not the spec's.
    """

    op: str
    args: tuple[int, ...]
    keywords: Mapping[str, Any]
    span: Span
    text: str
    name: str | None = None
    value: bool | int | float | None = None
    custom: CustomGradient | None = None
    shape: tuple[int, ...] = ()
    kind: str = "float"
    wants: tuple[str, ...] = ()
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes in topological order; `inputs` maps a name to its node.

    The program of a spec has exactly one output; only a vjp has several, None where the
    user stated that there is no gradient.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[str, int]
    outputs: tuple[int | None, ...]
    text: str

    @property
    def output(self) -> int:
        """The index of the only output."""
        (index,) = self.outputs
        assert index is not None
        return index

    @property
    def result(self) -> Node:
        """The node of the only output."""
        return self.nodes[self.output]

    @property
    def has_custom_gradient(self) -> bool:
        return any(node.op == CUSTOM for node in self.nodes)


class ProgramCopy:
    """A copy of a program that is written node by node, in order, and may differ from it. `place`
    has the index in the copy of each node of the program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.nodes: list[Node] = []
        self.place: dict[int, int] = {}

    def add(self, node: Node) -> int:
        """Appends a node, whose arguments are in the copy; its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def moved(self, node: Node) -> Node:
        """A node of the program, with its arguments in the copy."""
        return replace(node, args=tuple(self.place[i] for i in node.args))

    def append(self, body: Program, args: Iterable[int]) -> int:
        """Appends the nodes of another program, whose inputs are `args` in order; the index of its
        output."""
        copy = ProgramCopy(body)
        copy.nodes, copy.place = self.nodes, dict(zip(body.inputs.values(), args, strict=True))
        for index, node in enumerate(body.nodes):
            if index not in copy.place:
                copy.place[index] = copy.add(copy.moved(node))
        return copy.place[body.output]

    def finished(self, inputs: Mapping[str, int] = MappingProxyType({})) -> Program:
        """The copy. `inputs` are new ones, and those that are not at their nodes' places."""
        old = self._program
        named = {name: self.place[i] for name, i in old.inputs.items()}
        outputs = tuple(None if i is None else self.place[i] for i in old.outputs)
        return Program(tuple(self.nodes), {**named, **inputs}, outputs, old.text)

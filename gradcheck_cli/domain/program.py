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
"""Operations that reports show between their arguments."""


@dataclass(frozen=True, slots=True)
class CustomGradient:
    """A function with a derivative that the user wrote.

    `forward` has one output and as many inputs as the call has arguments. `vjp` takes the upstream
    cotangent and then the same arguments, and returns one output an argument (None in
    `Program.outputs` if the user returned None). `jvp`, if given, takes a tangent for each argument
    and then the arguments, and returns the tangent of the output.
    """

    name: str
    forward: Program
    vjp: Program
    jvp: Program | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    `op` is the canonical name of a row of the op table, or INPUT (`name` is the input), CONSTANT
    (`value` is a Python bool, int or float, not yet rounded to any dtype) or CUSTOM (`custom` has
    the rule). `args` are indices of earlier nodes. `keywords` are the static arguments, e.g.
    {"axis": 0}; for `getitem`, {"index": (...)} of int, slice, None and Ellipsis. `text` is the
    stretch of the formula, `name` the name to which the result was assigned. `shape` and `kind`
    ("float", "bool" or "int") describe the node's value. `wants` are the kinds to which the
    operation converts its arguments, which may have a lower kind. `source` is the file that
    contains `span`, if that is not the spec's. `kept`: an engine was seen to store the result, so
    that all that take it take the same number.
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
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes in topological order; `inputs` maps a name to its node.

    The program of a spec has exactly one output. Only a vjp has several, with None where the user
    returned no gradient.
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
    maps the index of each node of the program to its index in the copy."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.nodes: list[Node] = []
        self.place: dict[int, int] = {}

    def add(self, node: Node) -> int:
        """Append a node whose arguments are in the copy; return its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def copied(self, node: Node) -> Node:
        """A node of the program, with its arguments in the copy."""
        return replace(node, args=tuple(self.place[i] for i in node.args))

    def append(self, body: Program, args: Iterable[int]) -> int:
        """Append the nodes of another program, whose inputs are `args` in order; return the index
        of its output."""
        copy = ProgramCopy(body)
        copy.nodes, copy.place = self.nodes, dict(zip(body.inputs.values(), args, strict=True))
        for index, node in enumerate(body.nodes):
            if index not in copy.place:
                copy.place[index] = copy.add(copy.copied(node))
        return copy.place[body.output]

    def finished(self, inputs: Mapping[str, int] = MappingProxyType({})) -> Program:
        """The copy as a program. `inputs` are new inputs, or inputs that are not at their nodes'
        places."""
        old = self._program
        named = {name: self.place[i] for name, i in old.inputs.items()}
        outputs = tuple(None if i is None else self.place[i] for i in old.outputs)
        return Program(tuple(self.nodes), {**named, **inputs}, outputs, old.text)

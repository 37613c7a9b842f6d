"""Builds a Program node by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, CustomGradient, Node, Program
from gradcheck_cli.formula.shapes import Shape, infer, wanted_kinds
from reference_engine.op import Op

_Memory = dict[tuple[Any, ...], tuple[Shape, str]]


class Builder:
    """The nodes of one program, inputs first. `memory` caches shapes."""

    def __init__(self, memory: _Memory) -> None:
        self.nodes: list[Node] = []
        self.inputs: dict[str, int] = {}
        self._memory = memory

    def input(self, name: str, shape: Shape, kind: str, span: Span) -> int:
        """Adds an input of the program."""
        node = Node(INPUT, (), {}, span, name, name=name, shape=shape, kind=kind)
        self.inputs[name] = self.append(node)
        return self.inputs[name]

    def constant(self, value: bool | int | float, span: Span, text: str) -> int:
        """Adds a number."""
        kind = {bool: "bool", int: "int", float: "float"}[type(value)]
        return self.append(Node(CONSTANT, (), {}, span, text, value=value, kind=kind))

    def op(
        self, row: Op, args: Sequence[int], keywords: Mapping[str, Any], span: Span, text: str
    ) -> int:
        """Adds an operation. Raises Problem if the arguments do not fit."""
        shapes = tuple(self.nodes[arg].shape for arg in args)
        kinds = tuple(self.nodes[arg].kind for arg in args)
        # Slices cannot be hashed in Python 3.11; their repr says all about them.
        key = (row.name, shapes, kinds, repr(sorted(keywords.items())))
        inferred = self._memory.get(key)
        if inferred is None:
            inferred = self._memory[key] = infer(row, shapes, kinds, keywords)
        shape, kind = inferred
        node = Node(
            row.name,
            tuple(args),
            dict(keywords),
            span,
            text,
            shape=shape,
            kind=kind,
            wants=wanted_kinds(row, kinds, kind),
        )
        return self.append(node)

    def custom(
        self, rule: CustomGradient, op: str, args: Sequence[int], span: Span, text: str
    ) -> int:
        """Adds a call of a function with a custom gradient."""
        output = rule.forward.result
        inner = rule.forward
        node = Node(
            op,
            tuple(args),
            {},
            span,
            text,
            custom=rule,
            shape=output.shape,
            kind=output.kind,
            wants=tuple(inner.nodes[i].kind for i in inner.inputs.values()),
        )
        return self.append(node)

    def call_it(self, index: int, name: str) -> None:
        """Names the node after the variable that it is assigned to, unless it has a name."""
        if self.nodes[index].name is None:
            self.nodes[index] = replace(self.nodes[index], name=name)

    def program(
        self, outputs: Sequence[int | None], text: str, optional: Collection[str] = ()
    ) -> Program:
        """The program of the nodes that the outputs need, and every input; `optional` inputs only
        if something reads them."""
        live = {index for name, index in self.inputs.items() if name not in optional}
        waiting = [output for output in outputs if output is not None]
        while waiting:
            index = waiting.pop()
            if index not in live:
                live.add(index)
                waiting += self.nodes[index].args
        order = sorted(live)
        moved = {old: new for new, old in enumerate(order)}
        nodes = tuple(
            replace(self.nodes[old], args=tuple(moved[arg] for arg in self.nodes[old].args))
            for old in order
        )
        inputs = {name: moved[index] for name, index in self.inputs.items() if index in live}
        ends = tuple(None if output is None else moved[output] for output in outputs)
        return Program(nodes, inputs, ends, text)

    def append(self, node: Node) -> int:
        """Adds the node unchanged, and returns its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1


def used_inputs(program: Program) -> frozenset[str]:
    """The inputs that the outputs depend on."""
    used = {arg for node in program.nodes for arg in node.args}
    used.update(output for output in program.outputs if output is not None)
    return frozenset(name for name, index in program.inputs.items() if index in used)

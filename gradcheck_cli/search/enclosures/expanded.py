"""Rows that are written in other rows (`Composite`), as these, where they have no rule of their
own; and sums of several numbers, whose order is not known, as such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from gradcheck_cli.search.enclosures.faithful import ADDS_IN_ANY_ORDER, kernel_of
from gradcheck_cli.search.enclosures.rules import RULES
from reference_engine.op import Composite
from reference_engine.traced import ROWS, Value

_DTYPES = {"float": np.float64, "int": np.int64, "bool": np.bool_}


class _Parts(ProgramWriter):
    """Writes the parts of composites without a rule."""

    def row(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Any:
        if _has_parts(op.name):
            return op.compose(*args, **keywords)
        return super().row(op, args, keywords)


def expanded(program: Program) -> Program:
    """The program, in rows that have a rule as far as there are any."""
    if not any(_has_parts(node.op) for node in program.nodes):
        return program
    nodes: list[Node] = []
    place: list[int] = []
    for node in program.nodes:
        args = tuple(place[i] for i in node.args)
        body = _body(node, [program.nodes[i] for i in node.args]) if _has_parts(node.op) else None
        if body is None:
            nodes.append(replace(node, args=args))
            place.append(len(nodes) - 1)
        else:
            place.append(_append(nodes, body, args))
    return replace(
        program,
        nodes=tuple(nodes),
        inputs={name: place[i] for name, i in program.inputs.items()},
        outputs=tuple(None if i is None else place[i] for i in program.outputs),
    )


def gathered(program: Program) -> Program:
    """The program, where the kernel `ADDS_IN_ANY_ORDER`, which is restated as one sum after the
    other, adds all of its numbers at once."""
    nodes: list[Node] = []
    place: list[int] = []
    parts: dict[int, tuple[int, ...]] = {}  # by the place of a sum, what it adds
    for node in program.nodes:
        args = tuple(place[i] for i in node.args)
        place.append(len(nodes))
        if node.op != "add" or kernel_of(node) != ADDS_IN_ANY_ORDER:
            nodes.append(replace(node, args=args))
            continue
        added = tuple(part for i in args for part in parts.get(i, (i,)))
        if len(added) > 2:
            stacked = (len(added), *node.shape)
            nodes.append(replace(node, op="stack", args=added, keywords={"axis": 0}, shape=stacked))
            how = {"axis": 0, "keepdims": False}
            nodes.append(replace(node, op="sum", args=(len(nodes) - 1,), keywords=how))
            place[-1] = len(nodes) - 1
        else:
            nodes.append(replace(node, args=args))
        parts[place[-1]] = added
    return replace(
        program,
        nodes=tuple(nodes),
        inputs={name: place[i] for name, i in program.inputs.items()},
        outputs=tuple(None if i is None else place[i] for i in program.outputs),
    )


def _has_parts(op: str) -> bool:
    return op not in RULES and op not in (INPUT, CONSTANT) and isinstance(ROWS.get(op), Composite)


def _body(node: Node, given: Sequence[Node]) -> Program | None:
    """The parts of one node, whose inputs are named by the places of its arguments; None where they
    need arrays of their own, or the numbers of a run."""
    writer = _Parts(node.span, public=False)
    writer.text, writer.source = node.text, node.source
    symbols = [
        writer.input(str(place), np.ones(one.shape, _DTYPES[one.kind]))
        for place, one in enumerate(given)
    ]
    try:
        found = ROWS[node.op](*symbols, **node.keywords)
    except (TypeError, ValueError):
        return None
    if not isinstance(found, Symbol) or writer.constants:
        return None
    return writer.program(found)


def _append(nodes: list[Node], body: Program, args: Sequence[int]) -> int:
    """Appends the nodes of a body; the place of its output."""
    bound = {index: args[int(name)] for name, index in body.inputs.items()}
    for index, node in enumerate(body.nodes):
        if index not in bound:
            nodes.append(replace(node, args=tuple(bound[i] for i in node.args)))
            bound[index] = len(nodes) - 1
    return bound[body.output]

"""A lifted program as a person would write it: with the names of the user's variables.

The nodes that were written for one assignment have a place inside its right side. The one that
other nodes use is its value, and has the name of its variable.
"""

from __future__ import annotations

import ast
import keyword
import linecache
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.lifting import Lifted
from gradcheck_cli.engines.layer.source_lines import characters
from gradcheck_cli.formula.functions import DECORATOR
from gradcheck_cli.formula.parser import BUILT_IN
from reference_engine.op import find, find_several


def readable(lifted: Lifted) -> Lifted:
    """The same function. Nodes have the names of the variables that they were assigned to; a
    constant that is one number everywhere is no input, but that number, `zeros` or `full`."""
    program = lifted.program
    stated = with_numbers(lifted, lifted.constants)
    nodes = list(map(_plain, stated.program.nodes))
    for index, name in _names(program):
        nodes[index] = replace(nodes[index], name=name)
    return replace(stated, program=replace(stated.program, nodes=tuple(nodes)))


def with_literals(lifted: Lifted) -> Lifted:
    """The same function. A constant that is one number everywhere, and a number that no dtype
    rounds, as 1 or 0.5 in the code, is no input: those are only as exact as their dtype. What is
    known of an island is not exact."""
    narrow = FORMATS["bfloat16"]
    known = {n for one in lifted.islands for n in (one.value, one.jacobian, one.bends)}
    exact = (n for n, array in lifted.constants.items() if np.all(narrow.round(array) == array))
    return with_numbers(lifted, frozenset(exact) - known)


def with_numbers(lifted: Lifted, names: Container[str]) -> Lifted:
    """The same function, in which constants with these names that are one number everywhere are no
    inputs."""
    uniform = {
        name: made
        for name, array in lifted.constants.items()
        if name in names and (made := _creation(array)) is not None
    }
    program = lifted.program
    nodes = [
        replace(node, **uniform[node.name]) if node.op == INPUT and node.name in uniform else node
        for node in program.nodes
    ]
    inputs = {name: index for name, index in program.inputs.items() if name not in uniform}
    constants = {n: array for n, array in lifted.constants.items() if n not in uniform}
    changed = replace(program, nodes=tuple(nodes), inputs=inputs)
    return replace(lifted, program=changed, constants=constants)


def _creation(array: Array) -> dict[str, Any] | None:
    """How a node makes the array; None where its numbers differ."""
    if array.dtype.kind != "f" or not array.size or not np.all(array == array.flat[0]):
        return None
    value, shape = float(array.flat[0]), array.shape
    if not shape:
        return {"op": CONSTANT, "name": None, "value": value}
    if value in (0.0, 1.0) and not np.signbit(value):
        return {"op": "ones" if value else "zeros", "keywords": {"shape": shape}}
    return {"op": "full", "keywords": {"shape": shape, "fill_value": value}}


def _plain(node: Node) -> Node:
    """The node in its shortest spelling: an axis alone is a number, a product of matrices `@`."""
    keywords = dict(node.keywords)
    tuples = [name for name, value in keywords.items() if isinstance(value, tuple)]
    if tuples == ["axis"] and len(keywords["axis"]) == 1:
        (keywords["axis"],) = keywords["axis"]
    if node.op == "einsum" and len(node.args) == 2 and _is_matmul(keywords["subscripts"]):
        return replace(node, op="matmul", keywords={})
    return replace(node, keywords=keywords)


def _is_matmul(subscripts: str) -> bool:
    """Whether these are the product of two matrices or vectors, in whatever letters."""
    letters = dict.fromkeys(filter(str.isalpha, subscripts))
    renamed = str.maketrans(dict(zip(letters, "abcdefghijklmnopqrstuvwxyz", strict=False)))
    return subscripts.translate(renamed) in ("ab,bc->ac", "ab,b->a", "a,ab->b", "a,a->")


@dataclass(frozen=True, slots=True)
class _Assigned:
    """The right side of an assignment, and its names: one, or those of a tuple."""

    span: Span
    names: tuple[str, ...]


def _names(program: Program) -> Iterator[tuple[int, str]]:
    """The nodes that are values of assignments, with their names."""
    users: dict[int, set[int]] = {}
    for index, node in enumerate(program.nodes):
        for arg in node.args:
            users.setdefault(arg, set()).add(index)
    for assigned, written in _executions(program):
        inside = set(written)
        values = [i for i in written if i in program.outputs or not users.get(i, set()) <= inside]
        if len(values) == len(assigned.names):
            yield from zip(values, map(_allowed, assigned.names), strict=True)


def _executions(program: Program) -> Iterator[tuple[_Assigned, list[int]]]:
    """Each time that an assignment was executed, with the nodes that were written for it."""
    files: dict[str, list[_Assigned]] = {}
    now: _Assigned | None = None
    written: list[int] = []
    for index, node in enumerate(program.nodes):
        if node.op in (INPUT, CONSTANT) or node.source is None:
            continue
        path = node.source.path
        if path not in files:
            files[path] = _assignments(linecache.getlines(path))
        here = _innermost(files[path], node.span)
        again = (
            bool(written)
            and here is not None
            and (program.nodes[written[-1]].span == here.span != node.span)
        )
        if here is not now or again:
            if now is not None:
                yield now, written
            now, written = here, []
        written.append(index)
    if now is not None:
        yield now, written


def _innermost(assignments: Sequence[_Assigned], span: Span) -> _Assigned | None:
    """The assignment in whose right side the stretch is, and in no other inside it."""
    around = [
        one
        for one in assignments
        if _start(one.span) <= _start(span) and _end(span) <= _end(one.span)
    ]
    return max(around, key=lambda one: _start(one.span), default=None)


def _start(span: Span) -> tuple[int, int]:
    return span.line, span.column


def _end(span: Span) -> tuple[int, int]:
    return span.end_line, span.end_column


def _assignments(lines: Sequence[str]) -> list[_Assigned]:
    """The assignments of a file to names; none where it is no Python."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # a notebook's cell with a command of IPython
        return []
    found = []
    for node in ast.walk(tree):
        for target, value in _pairs(node):
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            names = tuple(part.id for part in parts if isinstance(part, ast.Name))
            if len(names) == len(parts):
                found.append(_Assigned(_span(value, lines), names))
    return found


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | ast.stmt]]:
    """What is assigned to what; a tuple to a tuple entry by entry. `y += x` is executed as one
    expression."""
    match node:
        case ast.Assign(targets=[ast.Tuple() as target], value=ast.Tuple() as value) if len(
            target.elts
        ) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
        case ast.Assign(targets=[target, *_], value=value) | ast.NamedExpr(target, value):
            yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.AugAssign(target=target):
            yield target, node


def _span(node: ast.expr | ast.stmt, lines: Sequence[str]) -> Span:
    last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return Span(
        node.lineno,
        characters(lines[node.lineno - 1], node.col_offset) + 1,
        last,
        characters(lines[last - 1], end) + 1,
    )


def _allowed(name: str) -> str:
    """The name as a variable of a formula: none of an operation, and no underscores alone."""
    taken = keyword.iskeyword(name) or find(name) or find_several(name) or name in _OTHERS
    return f"{name}_" if taken or not name.strip("_") else name


_OTHERS = frozenset({*BUILT_IN, "range", DECORATOR})

"""Rewrite a lifted program as a person would write it, with the names of the user's variables.

The nodes recorded for an assignment have their places inside its right side. The node among them
that other nodes use is the assigned value and gets the name of the variable.
"""

from __future__ import annotations

import ast
import keyword
import linecache
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.lifting import Lifted
from gradcheck_cli.engines.layer.source_lines import characters
from gradcheck_cli.formula.functions import DECORATOR
from gradcheck_cli.formula.parser import BUILT_IN
from reference_engine.op import find, find_several


def readable(lifted: Lifted, dtype: str) -> Lifted:
    """The same function in readable form, to be run in `dtype`. Nodes have the names of their
    variables; a constant with equal entries is a number, `zeros`, `ones` or `full` instead of an
    input; numbers have the fewest digits that the dtype rounds to the same number."""
    program = lifted.program
    stated = with_numbers(lifted, lifted.constants)
    nodes = [_shortest_form(node, FORMATS[dtype]) for node in stated.program.nodes]
    for index, name in _names(program):
        nodes[index] = replace(nodes[index], name=name)
    return replace(stated, program=replace(stated.program, nodes=tuple(nodes)))


def with_literals(lifted: Lifted) -> Lifted:
    """The same function with literals for constants whose entries are all equal to one number that
    every dtype represents exactly, as 1 or 0.5 in code: inputs are only as exact as their dtype.
    The constants of islands stay inputs, because they are not exact."""
    narrow = FORMATS["bfloat16"]
    known = {n for one in lifted.islands for n in (one.value, one.jacobian, one.bends)}
    exact = (n for n, array in lifted.constants.items() if np.all(narrow.round(array) == array))
    return with_numbers(lifted, frozenset(exact) - known)


def with_numbers(lifted: Lifted, names: Container[str]) -> Lifted:
    """The same function with numbers in place of the inputs in `names` whose entries are all
    equal."""
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
    """The fields of a node that creates the array; None if its entries differ."""
    if array.dtype.kind != "f" or not array.size or not np.all(array == array.flat[0]):
        return None
    value, shape = float(array.flat[0]), array.shape
    if not shape:
        return {"op": CONSTANT, "name": None, "value": value}
    if value in (0.0, 1.0) and not np.signbit(value):
        return {"op": "ones" if value else "zeros", "keywords": {"shape": shape}}
    return {"op": "full", "keywords": {"shape": shape, "fill_value": value}}


def _shortest_form(node: Node, fmt: FloatFormat) -> Node:
    """The node in its shortest form: a number with few digits, a single axis as a number, a matrix
    product as `@`."""
    if isinstance(node.value, float):
        return replace(node, value=fmt.shortest(node.value))
    keywords = dict(node.keywords)
    if isinstance(keywords.get("fill_value"), float):
        keywords["fill_value"] = fmt.shortest(keywords["fill_value"])
    tuples = [name for name, value in keywords.items() if isinstance(value, tuple)]
    if tuples == ["axis"] and len(keywords["axis"]) == 1:
        (keywords["axis"],) = keywords["axis"]
    if node.op == "einsum" and len(node.args) == 2 and _is_matmul(keywords["subscripts"]):
        return replace(node, op="matmul", keywords={})
    return replace(node, keywords=keywords)


def _is_matmul(subscripts: str) -> bool:
    """Whether these subscripts, in any letters, are the product of two matrices or vectors."""
    letters = dict.fromkeys(filter(str.isalpha, subscripts))
    renamed = str.maketrans(dict(zip(letters, "abcdefghijklmnopqrstuvwxyz", strict=False)))
    return subscripts.translate(renamed) in ("ab,bc->ac", "ab,b->a", "a,ab->b", "a,a->")


@dataclass(frozen=True, slots=True)
class _Assigned:
    """The right side of an assignment, and its target's names: one, or those of a tuple."""

    span: Span
    names: tuple[str, ...]


def _names(program: Program) -> Iterator[tuple[int, str]]:
    """The nodes whose values are assigned, with the names of their variables."""
    users: dict[int, set[int]] = {}
    for index, node in enumerate(program.nodes):
        for arg in node.args:
            users.setdefault(arg, set()).add(index)
    for assigned, written in _executions(program):
        inside = set(written)
        values = [i for i in written if i in program.outputs or not users.get(i, set()) <= inside]
        if len(values) == len(assigned.names):
            yield from zip(values, map(_usable_name, assigned.names), strict=True)


def _executions(program: Program) -> Iterator[tuple[_Assigned, list[int]]]:
    """Every execution of an assignment, with the nodes that it recorded."""
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
    """The innermost assignment whose right side contains the span, or None."""
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
    """The assignments to names in a file; none if it is not Python."""
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # for example a notebook cell with an IPython command
        return []
    assignments = []
    for node in ast.walk(tree):
        for target, value in _pairs(node):
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            names = tuple(part.id for part in parts if isinstance(part, ast.Name))
            if len(names) == len(parts):
                assignments.append(_Assigned(_span(value, lines), names))
    return assignments


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | ast.stmt]]:
    """The targets and values of an assignment; tuples are paired entry by entry. `y += x` counts as
    one expression."""
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


def _usable_name(name: str) -> str:
    """The name, changed if a formula cannot use it: a keyword, an operation, only underscores."""
    taken = keyword.iskeyword(name) or find(name) or find_several(name) or name in _OTHERS
    return f"{name}_" if taken or not name.strip("_") else name


_OTHERS = frozenset({*BUILT_IN, "range", DECORATOR})

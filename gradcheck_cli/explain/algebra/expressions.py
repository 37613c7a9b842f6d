"""Programs as shared, immutable expressions, so that a part can be replaced without renumbering."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, CustomGradient, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.formula.errors import Problem
from gradcheck_cli.formula.program import Builder
from gradcheck_cli.formula.shapes import Shape, infer
from reference_engine.op import TABLE


class ShapeMismatch(Exception):
    """The shapes of an expression do not fit together: no candidate."""


@dataclass(eq=False, slots=True)
class Expr:
    """An operation, input or constant; equal expressions of a pool are the same object.

    `origin` is the node of the program that it first stood for, None if a rewrite made it.
    """

    op: str
    args: tuple[Expr, ...]
    keywords: Mapping[str, Any]
    shape: Shape
    kind: str
    value: bool | int | float | None = None
    name: str | None = None
    custom: CustomGradient | None = None
    origin: int | None = None


class ExprPool:
    """All expressions of one search. Raises ShapeMismatch if arguments do not fit an operation."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[Any, Expr] = {}
        self._shapes: dict[Any, tuple[Shape, str]] = {}
        self._memory: dict[Any, Any] = {}  # cached shapes of built programs
        self.of_node: list[Expr] = []
        for index, node in enumerate(program.nodes):
            args = tuple(self.of_node[i] for i in node.args)
            made = (node.op, args, node.keywords, node.shape, node.kind)
            known = (node.value, node.name, node.custom)
            self.of_node.append(self._interned(Expr(*made, *known, origin=index)))
        self.output = self.of_node[program.output]

    def constant(self, value: bool | int | float) -> Expr:
        kind = {bool: "bool", int: "int", float: "float"}[type(value)]
        return self._interned(Expr(CONSTANT, (), {}, (), kind, value))

    def call(self, op: str, *args: Expr, **keywords: Any) -> Expr:
        """A row of the table on these arguments; omitted keywords have their defaults."""
        row = TABLE[op]
        complete = {name: keywords.pop(name, default) for name, default in row.keywords.items()}
        complete.update(keywords)
        shapes = tuple(arg.shape for arg in args)
        kinds = tuple(arg.kind for arg in args)
        key = (op, shapes, kinds, repr(sorted(complete.items())))
        inferred = self._shapes.get(key)
        if inferred is None:
            try:
                inferred = infer(row, shapes, kinds, complete)
            except (Problem, TypeError, KeyError) as problem:
                raise ShapeMismatch(str(problem)) from problem
            self._shapes[key] = inferred
        return self._interned(Expr(op, args, complete, *inferred))

    def custom(self, rule: CustomGradient, args: Sequence[Expr], shape: Shape) -> Expr:
        return self._interned(Expr(CUSTOM, tuple(args), {}, shape, "float", custom=rule))

    def replaced(self, root: Expr, old: Expr, new: Expr) -> Expr:
        """`root` with `new` in place of every `old`. Raises ShapeMismatch if the shapes differ."""
        if (old.shape, old.kind) != (new.shape, new.kind):
            raise ShapeMismatch(f"{new.shape} in place of {old.shape}")
        done = {id(old): new}
        for expr in ordered(root, stop=old):
            if id(expr) in done:
                continue
            args = tuple(done[id(arg)] for arg in expr.args)
            if all(a is b for a, b in zip(args, expr.args, strict=True)):
                done[id(expr)] = expr
            else:
                done[id(expr)] = self._interned(replace(expr, args=args))
        return done[id(root)]

    def to_program(self, root: Expr, span: Span) -> Program:
        """The program whose output is `root`; nodes that a rewrite made have the place `span`."""
        builder = Builder(self._memory)
        nodes = self.program.nodes
        place: dict[int, int] = {}
        for name, index in self.program.inputs.items():
            node = nodes[index]
            place[id(self.of_node[index])] = builder.input(name, node.shape, node.kind, node.span)
        for expr in ordered(root):
            if id(expr) in place:
                continue
            where = span if expr.origin is None else nodes[expr.origin].span
            text = "" if expr.origin is None else nodes[expr.origin].text
            args = [place[id(arg)] for arg in expr.args]
            if expr.op == CONSTANT:
                assert expr.value is not None
                index = builder.constant(expr.value, where, text or repr(expr.value))
            elif expr.op == CUSTOM:
                assert expr.custom is not None
                index = builder.custom(expr.custom, CUSTOM, args, where, text)
            else:
                index = builder.op(TABLE[expr.op], args, expr.keywords, where, text)
            if expr.name is not None:
                builder.call_it(index, expr.name)
            place[id(expr)] = index
        return builder.program((place[id(root)],), self.program.text)

    def _interned(self, made: Expr) -> Expr:
        """The expression of the pool that equals this one."""
        # 0.0 and -0.0, 1 and 1.0 and True are different constants
        key = (
            made.op,
            tuple(map(id, made.args)),
            repr(sorted(made.keywords.items())) if made.keywords else "",
            type(made.value).__name__,
            repr(made.value),
            made.name if made.op == INPUT else None,
            id(made.custom),
        )
        return self._known.setdefault(key, made)


def ordered(
    root: Expr, stop: Expr | None = None, known: Container[int] = frozenset()
) -> list[Expr]:
    """`root` and all its parts, arguments first; nothing below `stop`, and nothing whose id is
    `known`."""
    order: list[Expr] = []
    seen: set[int] = set()
    waiting: list[tuple[Expr, bool]] = [(root, False)]
    while waiting:
        expr, ready = waiting.pop()
        if ready:
            order.append(expr)
        elif id(expr) not in seen and id(expr) not in known:
            seen.add(id(expr))
            waiting.append((expr, True))
            if expr is not stop:
                waiting += [(arg, False) for arg in reversed(expr.args)]
    return order


def has_at_most(root: Expr, count: int) -> bool:
    """Whether `root` has at most this number of parts; the count stops there."""
    seen = {id(root)}
    waiting = [root]
    while waiting and len(seen) <= count:
        for arg in waiting.pop().args:
            if id(arg) not in seen:
                seen.add(id(arg))
                waiting.append(arg)
    return len(seen) <= count

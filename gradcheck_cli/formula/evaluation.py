"""Walks the syntax tree. The meaning of each kind of expression and statement is registered here.

An expression may call a function, whose body has statements, which contain expressions. The modules
of all three import this module, and so none of them imports another because of the recursion.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from gradcheck_cli.formula import hints
from gradcheck_cli.formula.context import Frame, Poison, Value
from gradcheck_cli.formula.errors import Problem

EXPRESSIONS: dict[type[ast.expr], Callable[[Frame, ast.expr], Value]] = {}
"""Kind of expression -> what gives its value. Filled by `expressions` and `calls`."""

STATEMENTS: dict[type[ast.stmt], Callable[[Frame, ast.stmt], None]] = {}
"""Kind of statement -> what runs it. Filled by `statements`."""


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """The value of an expression. After a mistake, which is reported, the value is POISON."""
    context = frame.context
    context.enter(node)
    try:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            return report_unsupported(frame, node, type(node))
        return handler(frame, node)
    except Problem as problem:
        return context.fail(node, problem.message, problem.help, problem.code)
    finally:
        context.leave()


def report_unsupported(frame: Frame, node: ast.expr | ast.stmt, kind: type[ast.AST]) -> Poison:
    """Reports syntax that is not part of the formula language, and says what to write instead."""
    message, help = hints.NOT_HERE.get(kind, ("this is not part of the formula language", ""))
    return frame.context.fail(node, message, help)


def run(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    """Runs statements for the names that they define."""
    for statement in statements:
        frame.context.enter(statement)
        try:
            handler = STATEMENTS.get(type(statement))
            if handler is None:
                report_unsupported(frame, statement, type(statement))
            else:
                handler(frame, statement)
        finally:
            frame.context.leave()


def without_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The statements without the docstring."""
    first = body[0] if body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:]
    return body

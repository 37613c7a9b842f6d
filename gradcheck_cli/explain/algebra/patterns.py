"""Patterns in the formula language.

Small letters match any value, `c`, `d`, `k` and `n` only constants; capital letters match static
arguments, `**K` all those that are not written.
"""

from __future__ import annotations

import ast
import math
from functools import cache
from typing import Any

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.explain.algebra.normal_form import Algebra, NormalForm, arithmetic
from reference_engine.op import REQUIRED, find

NUMBERS = frozenset("cdkn")
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.MatMult: "matmul",
    ast.USub: "negative",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.BitAnd: "logical_and",
    ast.BitOr: "logical_or",
}


@dataclass(frozen=True, slots=True)
class KeywordVariable:
    """Matches the value of a static argument, or if `rest`, all that are not written."""

    name: str
    rest: bool = False


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def operation(node: ast.AST) -> tuple[str, list[ast.expr], dict[str, Any]] | None:
    """(row, arguments, keywords) of an operation in a pattern; None for names and numbers."""
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)], [node.left, node.right], {}
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)], [node.operand], {}
    if isinstance(node, ast.Compare):
        return _OPERATORS[type(node.ops[0])], [node.left, node.comparators[0]], {}
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        row = find(node.func.id)
        assert row is not None, f"a pattern speaks of `{node.func.id}`, which is no operation"
        return row.name, list(node.args), dict(_keyword(keyword) for keyword in node.keywords)
    if isinstance(node, ast.Subscript):
        part = node.slice
        assert isinstance(part, ast.Name)
        return "getitem", [node.value], {"index": KeywordVariable(part.id)}
    return None


def _keyword(keyword: ast.keyword) -> tuple[str, Any]:
    value = keyword.value
    if keyword.arg is None:
        assert isinstance(value, ast.Name)
        return "**", KeywordVariable(value.id, rest=True)
    if isinstance(value, ast.Name) and value.id.isupper():
        return keyword.arg, KeywordVariable(value.id)
    return keyword.arg, ast.literal_eval(value)


@cache
def pattern(text: str) -> NormalForm:
    """The normal form of a pattern. Each pattern has its own algebra, so that the order of its
    parts is that of its text, whichever patterns were parsed before."""
    return _pattern(Algebra(), parsed(text))


def _pattern(algebra: Algebra, node: ast.expr) -> NormalForm:
    if isinstance(node, ast.Constant):
        return algebra.number(float(node.value))  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return algebra.number(math.pi) if node.id == "pi" else algebra.variable(node.id)
    parsed = operation(node)
    assert parsed is not None
    op, parts, keywords = parsed
    args = [_pattern(algebra, part) for part in parts]
    row = find(op)
    assert row is not None
    rest = keywords.pop("**", None)
    complete = dict(keywords)
    for name, default in row.keywords.items():
        if name not in complete and rest is None and default is not REQUIRED:
            complete[name] = default
    if rest is not None:
        complete["**"] = rest
    return arithmetic(algebra, op, args, complete)

"""Expressions of the syntax tree to nodes of the program."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.program import CONSTANT
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.formula import hints, static
from gradcheck_cli.formula.context import (
    POISON,
    Frame,
    Items,
    Poison,
    Ref,
    Static,
    Value,
    entries_of,
)
from gradcheck_cli.formula.errors import Problem, ShapeProblem
from gradcheck_cli.formula.evaluation import EXPRESSIONS, evaluate, report_unsupported
from gradcheck_cli.formula.shapes import Shape
from reference_engine.op import TABLE, Op, find, find_several

_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("add", "+"),
    ast.Sub: ("subtract", "-"),
    ast.Mult: ("multiply", "*"),
    ast.Div: ("divide", "/"),
    ast.Pow: ("power", "**"),
    ast.MatMult: ("matmul", "@"),
    ast.BitAnd: ("logical_and", "&"),
    ast.BitOr: ("logical_or", "|"),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("less", "<"),
    ast.LtE: ("less_equal", "<="),
    ast.Gt: ("greater", ">"),
    ast.GtE: ("greater_equal", ">="),
    ast.Eq: ("equal", "=="),
    ast.NotEq: ("not_equal", "!="),
}


def emit(
    frame: Frame,
    row: Op,
    values: Sequence[tuple[Value, ast.expr]],
    keywords: Mapping[str, Any],
    node: ast.expr | ast.stmt,
    sign: str = ",",
) -> Value:
    """Adds an operation on these values. Messages show `sign` between the shapes."""
    refs: list[int] = []
    for value, part in values:
        ref = frame.node_of(value, part)
        if isinstance(ref, Ref):
            refs.append(ref.index)
    if len(refs) < len(values):
        return POISON
    positions = frame.context.positions
    try:
        index = frame.builder.op(
            row, refs, keywords, positions.span(node), positions.fragment(node)
        )
    except Problem as problem:
        shapes = [frame.builder.nodes[ref].shape for ref in refs]
        return misfit(frame, node, shapes, problem, sign)
    return Ref(index)


def misfit(
    frame: Frame,
    node: ast.expr | ast.stmt,
    shapes: Sequence[Shape],
    problem: Problem,
    sign: str = ",",
) -> Poison:
    """Reports that values of these shapes cannot be combined in an operation."""
    text = frame.context.positions.fragment(node)
    shown = text if len(text) <= 60 else text[:57] + "..."
    between = ", " if sign == "," else f" {sign} "
    message = f"{shown}: {between.join(map(str, shapes))}: {problem.message}"
    return frame.context.fail(node, message, problem.help, problem.code)


def combine(
    frame: Frame, op: ast.operator, left: tuple[Value, ast.expr], right: tuple[Value, ast.expr],
    node: ast.expr | ast.stmt,
) -> Value:  # fmt: skip
    """left op right."""
    values = (left[0], right[0])
    if any(isinstance(value, Poison) for value in values):
        return POISON
    both_known = all(isinstance(value, Static) for value in values)
    if type(op) not in _OPERATORS and not (both_known and isinstance(op, ast.FloorDiv | ast.Mod)):
        return report_unsupported(frame, node, type(op))
    if both_known and not isinstance(op, ast.MatMult):
        try:
            known = [value.value for value in values if isinstance(value, Static)]
            return Static(static.binary(op, known[0], known[1]))
        except Problem as problem:
            return frame.context.fail(node, problem.message, problem.help, problem.code)
    name, sign = _OPERATORS[type(op)]
    if name in ("logical_and", "logical_or"):
        for value, part in (left, right):
            if _kind(frame, value) not in ("bool", None):
                message = f"{sign} combines comparisons, but this is a number"
                help = "brackets are needed: (a < b) & (b < c)"
                return frame.context.fail(part, message, help)
    if name == "power" and not _has_integer_power(frame, left[0], right[0]):
        message = "a power of integers needs a constant exponent >= 0"
        return frame.context.fail(node, message, "write x ** -1.0", code=Codes.SHAPE_MISMATCH)
    return emit(frame, TABLE[name], (left, right), {}, node, sign)


def _has_integer_power(frame: Frame, base: Value, exponent: Value) -> bool:
    """Whether the power exists. NumPy has no negative integer power of integers, and frameworks
    disagree on its value."""
    if _kind(frame, base) != "int" or _kind(frame, exponent) != "int":
        return True
    known = exponent.value if isinstance(exponent, Static) else None
    if isinstance(exponent, Ref) and frame.builder.nodes[exponent.index].op == CONSTANT:
        known = frame.builder.nodes[exponent.index].value
    return known is not None and known >= 0


def _kind(frame: Frame, value: Value) -> str | None:
    if isinstance(value, Ref):
        return frame.builder.nodes[value.index].kind
    if isinstance(value, Static):
        return {bool: "bool", int: "int", float: "float"}.get(type(value.value))
    return None


def _binary(frame: Frame, node: ast.expr) -> Value:
    """A chain a + b + c + ... is nested to the left. It is walked in a loop, so that long sums do
    not reach the limit of depth."""
    spine: list[ast.BinOp] = []
    deepest = node
    while isinstance(deepest, ast.BinOp):
        spine.append(deepest)
        deepest = deepest.left
    value = evaluate(frame, deepest)
    for part in reversed(spine):
        right = evaluate(frame, part.right)
        value = combine(frame, part.op, (value, part.left), (right, part.right), part)
    return value


def _unary(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.UnaryOp)
    if isinstance(node.op, ast.Not):
        return report_unsupported(frame, node, ast.Not)
    value = evaluate(frame, node.operand)
    if isinstance(value, Static):
        return Static(static.unary(node.op, value.value))
    if isinstance(node.op, ast.UAdd):
        return frame.node_of(value, node.operand)
    if isinstance(node.op, ast.Invert) and _kind(frame, value) not in ("bool", None):
        raise Problem("~ negates comparisons, but this is a number", "write -x")
    name = "negative" if isinstance(node.op, ast.USub) else "logical_not"
    return emit(frame, TABLE[name], ((value, node.operand),), {}, node)


def _compare(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.Compare)
    parts = [node.left, *node.comparators]
    values = [evaluate(frame, part) for part in parts]
    if len(node.ops) > 1:
        message = "a chain of comparisons is not part of the formula language"
        raise Problem(message, "write (a < b) & (b < c)")
    if any(isinstance(value, Poison) for value in values):
        return POISON
    (op,) = node.ops
    if type(op) not in _COMPARISONS:
        raise Problem("the comparisons are < <= > >= == and !=")
    left, right = values
    if isinstance(left, Static) and isinstance(right, Static):
        return Static(static.compare(op, left.value, right.value))
    name, sign = _COMPARISONS[type(op)]
    return emit(frame, TABLE[name], tuple(zip(values, parts, strict=True)), {}, node, sign)


def _constant(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.Constant)
    return Static(static.literal(node.value))


def _name(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.Name)
    name = node.id
    value = frame.variables.get(name) or frame.context.constants.get(name)
    if value is not None:
        return value
    if name in frame.outside:
        message = f"`{name}` is not visible inside a function"
        raise Problem(
            message, f"make `{name}` a parameter of `{frame.function}`", code=Codes.UNKNOWN_NAME
        )
    if name in frame.functions or find(name) or find_several(name):
        raise Problem(
            f"`{name}` is an operation, not a value", f"call it: {name}(x)", code=Codes.UNKNOWN_NAME
        )
    choices = [*frame.variables, *frame.context.constants]
    help = did_you_mean(name, choices)
    if not help:
        help = f"visible here: {', '.join(list(frame.variables)[:12])}" if frame.variables else ""
    raise Problem(f"unknown name `{name}`", help, code=Codes.UNKNOWN_NAME)


def _items(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.Tuple | ast.List)
    values = [value for item in node.elts for value in _entries(frame, item)]
    if any(isinstance(value, Poison) for value in values):
        return POISON
    known = tuple(value.value for value in values if isinstance(value, Static))
    return Static(known) if len(known) == len(values) else Items(tuple(values))


def _entries(frame: Frame, node: ast.expr) -> Sequence[Value]:
    """The value of an entry of a list; the entries of a list `ys` for `*ys`."""
    if not isinstance(node, ast.Starred):
        return [evaluate(frame, node)]
    value = evaluate(frame, node.value)
    if isinstance(value, Ref) or (isinstance(value, Static) and not isinstance(value.value, tuple)):
        frame.context.fail(node, "* takes the entries of a list, and this is one value")
        return [POISON]
    return [value] if isinstance(value, Poison) else entries_of(value)


def _subscript(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.Subscript)
    value = evaluate(frame, node.value)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    index: list[Any] = []
    for part in parts:
        entry = _index_entry(frame, part)
        if isinstance(entry, Poison):
            return POISON
        index.append(entry)
    if isinstance(value, Static | Items):
        return _entry_of_items(value, index)
    return emit(frame, TABLE["getitem"], ((value, node.value),), {"index": tuple(index)}, node)


def _entry_of_items(value: Static | Items, index: Sequence[Any]) -> Value:
    """items[0] of a list that is written in the formula."""
    items = entries_of(value)
    if not items or len(index) != 1 or not isinstance(index[0], int):
        raise ShapeProblem("this has no entries")
    if not -len(items) <= index[0] < len(items):
        raise ShapeProblem(f"the index {index[0]} is outside a list of {len(items)}")
    return items[index[0]]


def _index_entry(frame: Frame, part: ast.expr) -> Any:
    """An int, a slice, None or Ellipsis; POISON after a mistake."""
    if isinstance(part, ast.Slice):
        bounds = [
            None if bound is None else _index_entry(frame, bound)
            for bound in (part.lower, part.upper, part.step)
        ]
        if any(isinstance(bound, Poison) for bound in bounds):
            return POISON
        return slice(*bounds)
    value = evaluate(frame, part)
    if isinstance(value, Poison):
        return POISON
    if isinstance(value, Static):
        known = value.value
        if known is None or known is Ellipsis:
            return known
        if isinstance(known, int) and not isinstance(known, bool) and abs(known) < 2**62:
            return known
        return frame.context.fail(part, f"{known!r} is not an index: indices are integers")
    message = "an index must be known before the run"
    if _kind(frame, value) == "bool":
        message = "a mask cannot be an index: the shape would depend on the values"
    help = "integers, slices, None and ... are indices; choose values by where(condition, a, b)"
    return frame.context.fail(part, message, help)


def _attribute(frame: Frame, node: ast.expr) -> Value:
    assert isinstance(node, ast.Attribute)
    message = f"`.{node.attr}`: attributes are not part of the formula language"
    raise Problem(message, hints.for_attribute(node, None))


EXPRESSIONS.update(
    {
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Tuple: _items,
        ast.List: _items,
        ast.Subscript: _subscript,
        ast.Attribute: _attribute,
    }
)

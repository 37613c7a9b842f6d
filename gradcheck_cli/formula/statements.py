"""Statements: assignments, loops, functions."""

from __future__ import annotations

import ast

from gradcheck_cli.domain.codes import Codes
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
from gradcheck_cli.formula.evaluation import STATEMENTS, evaluate, run
from gradcheck_cli.formula.expressions import combine
from gradcheck_cli.formula.functions import define
from reference_engine.op import find_several

_RANGE = "a loop is written: for i in range(3):"
_PLAIN = "an assignment is written: name = expression"


def assign(frame: Frame, statement: ast.Assign | ast.AugAssign) -> Value:
    """Runs name = expression, or name += expression, and returns the value."""
    if isinstance(statement, ast.AugAssign):
        targets: list[ast.expr] = [statement.target]
        right = evaluate(frame, statement.value)
        value: Value = POISON
        if isinstance(statement.target, ast.Name):
            name = ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement.target)
            left = evaluate(frame, name)
            value = combine(frame, statement.op, (left, name), (right, statement.value), statement)
    else:
        targets = statement.targets
        value = evaluate(frame, statement.value)
    if len(targets) == 1 and isinstance(targets[0], ast.Tuple | ast.List):
        return _unpack(frame, targets[0], value, statement)
    for target in targets:
        if not isinstance(target, ast.Name):
            _bad_target(frame, target)
            value = POISON
    if len(targets) > 1:
        frame.context.fail(statement, "one assignment has one name", _PLAIN)
    for target in targets:
        for name_node in ast.walk(target):
            if isinstance(name_node, ast.Name):
                _bind(frame, name_node.id, value)
    return value


def _unpack(
    frame: Frame, target: ast.Tuple | ast.List, value: Value, statement: ast.Assign | ast.AugAssign
) -> Value:
    """w, v = eigh(x): one name for each value."""
    values = entries_of(value)
    names = [part for part in target.elts if isinstance(part, ast.Name)]
    for part in target.elts:
        if not isinstance(part, ast.Name):
            _bad_target(frame, part)
    if not isinstance(value, Poison) and len(names) == len(target.elts):
        if not values:
            frame.context.fail(
                statement, "this is one value, and one name is enough", code=Codes.SHAPE_MISMATCH
            )
        elif len(values) != len(names):
            message = f"{len(values)} values cannot be given to {len(names)} names"
            frame.context.fail(
                statement, message, _results_of(statement.value), code=Codes.SHAPE_MISMATCH
            )
    fit = len(values) == len(names) == len(target.elts)
    for i, name in enumerate(names):
        _bind(frame, name.id, values[i] if fit else POISON)
    return value if fit else POISON


def _results_of(node: ast.expr) -> str:
    """The names of the results of an operation with several results."""
    called = node.func if isinstance(node, ast.Call) else None
    several = find_several(called.id) if isinstance(called, ast.Name) else None
    if several is None or any(name.startswith("*") for name in several.results):
        return ""
    return f"{several.name} gives {', '.join(several.results)}"


def _bad_target(frame: Frame, target: ast.expr) -> None:
    message = "only a name can be assigned to"
    help = _PLAIN
    if isinstance(target, ast.Subscript):
        message = "entries cannot be assigned to"
        help = "make a new value: where(condition, a, b), concatenate([...]) or stack([...])"
    frame.context.fail(target, message, help)


def _bind(frame: Frame, name: str, value: Value) -> None:
    frame.variables[name] = value
    if frame.function is None:
        frame.context.outer_names.add(name)
    if isinstance(value, Ref):
        frame.builder.call_it(value.index, name)


def _loop(frame: Frame, statement: ast.stmt) -> None:
    """for i in range(...), unrolled: the loop variable is a constant in every turn."""
    assert isinstance(statement, ast.For)
    context = frame.context
    if statement.orelse:
        context.fail(statement.orelse[0], "a loop has no `else`")
    if not isinstance(statement.target, ast.Name):
        context.fail(statement.target, "a loop has one variable", _RANGE)
        return
    turns = _turns(frame, statement.iter)
    if turns is None:
        # One turn with an unknown number, for the mistakes of the body.
        frame.variables[statement.target.id] = POISON
        run(frame, statement.body)
        return
    for turn in turns:
        before = context.failures
        _bind(frame, statement.target.id, Static(turn))
        run(frame, statement.body)
        if context.failures > before:
            # Further turns repeat the mistake, and what they would have made is not known.
            nodes = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            for name in {node.id for node in nodes if isinstance(node.ctx, ast.Store)}:
                _bind(frame, name, POISON)
            return


def _turns(frame: Frame, node: ast.expr) -> range | None:
    context = frame.context
    is_range = (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    )
    if not isinstance(node, ast.Call) or not is_range:
        context.fail(node, "a loop runs over range(...) only", _RANGE)
        return None
    values = [evaluate(frame, part) for part in node.args]
    if node.keywords or not 1 <= len(values) <= 3:
        context.fail(node, "range takes one to three whole numbers", _RANGE)
        return None
    bounds: list[int] = []
    for value, part in zip(values, node.args, strict=True):
        if isinstance(value, Poison):
            return None
        if isinstance(value, Ref | Items):
            message = "the bounds of a loop must be known before the run"
            context.fail(part, message, "a number, a constant or a loop variable")
            return None
        if not isinstance(value.value, int) or isinstance(value.value, bool):
            context.fail(part, f"{value.value!r} is not a whole number")
            return None
        bounds.append(value.value)
    if len(bounds) == 3 and bounds[2] == 0:
        context.fail(node.args[2], "the step of a range cannot be 0")
        return None
    return range(*bounds)


def _assign(frame: Frame, statement: ast.stmt) -> None:
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    assign(frame, statement)


def _define(frame: Frame, statement: ast.stmt) -> None:
    assert isinstance(statement, ast.FunctionDef)
    if frame.function is None:
        define(frame, statement)
    else:
        message = "a function cannot be defined inside another"
        frame.context.fail(statement, message, "define it before, without indentation")


def _unused(frame: Frame, statement: ast.stmt) -> None:
    assert isinstance(statement, ast.Expr)
    evaluate(frame, statement.value)
    help = f"give it a name: z = {frame.context.positions.fragment(statement)[:60]}"
    message = "this value is not used: only the last statement of a formula is its output"
    if frame.function is not None:
        message = "this value is not used"
    frame.context.fail(statement, message, help)


STATEMENTS.update(
    {
        ast.Assign: _assign,
        ast.AugAssign: _assign,
        ast.For: _loop,
        ast.FunctionDef: _define,
        ast.Expr: _unused,
    }
)

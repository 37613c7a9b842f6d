"""Calls of operations, by the rows of the op table, and of the formula's own functions."""

from __future__ import annotations

import ast
from typing import Any

from gradcheck_cli.formula import hints
from gradcheck_cli.formula.context import POISON, Frame, Items, Poison, Ref, Static, Value
from gradcheck_cli.formula.errors import Problem, did_you_mean
from gradcheck_cli.formula.expressions import emit, evaluate
from gradcheck_cli.formula.functions import call_function
from reference_engine.op import REQUIRED, Op, find

_SAME_KEYWORDS = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "keep_dims": "keepdims",
    "a_min": "min",
    "a_max": "max",
    "min_value": "min",
    "max_value": "max",
    "newshape": "shape",
    "size": "shape",
    "perm": "axes",
}


def call(frame: Frame, node: ast.Call) -> Value:
    """name(arguments). Raises Problem where there is no such name."""
    func = node.func
    if isinstance(func, ast.Attribute):
        parts: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        text = ", ".join(frame.context.positions.fragment(part) for part in parts)
        message = f"`.{func.attr}(...)`: operations are called by name alone"
        frame.context.fail(func, "GC904", message, hints.for_attribute(func, text))
        _evaluate_all(frame, node)
        return POISON
    if not isinstance(func, ast.Name):
        raise Problem("GC904", "only operations and functions can be called, by their names")
    for keyword in node.keywords:
        if keyword.arg is None:
            raise Problem("GC904", "`**` before an argument is not part of the formula language")
    name = func.id
    if name in frame.functions:
        return call_function(frame, frame.functions[name], node)
    row = None if name == "getitem" else find(name)
    if row is not None:
        return _call_op(frame, row, node)
    _evaluate_all(frame, node)
    return _unknown(frame, func)


def _evaluate_all(frame: Frame, node: ast.Call) -> None:
    """Looks at the arguments of a call that is wrong: they may have mistakes of their own."""
    for part in (*node.args, *(keyword.value for keyword in node.keywords)):
        if not isinstance(part, ast.Starred):
            evaluate(frame, part)


def _unknown(frame: Frame, func: ast.Name) -> Poison:
    """A name that cannot be called: why, and what was meant."""
    name, fail = func.id, frame.context.fail
    if name in hints.FORBIDDEN or name.startswith("__"):
        message = f"`{name}` is not part of the formula language"
        return fail(func, "GC904", message, "a formula cannot reach the interpreter or any file")
    if name == frame.function:
        return fail(
            func, "GC904", f"`{name}` calls itself", "recursion is not part of the language"
        )
    if name in frame.variables or name in frame.context.constants:
        message = f"`{name}` is a value and cannot be called"
        return fail(func, "GC905", message, f"to multiply, write {name} * (...)")
    if any(function.name == name for function in frame.context.functions):
        message = f"`{name}` is not defined yet at this point"
        return fail(func, "GC905", message, "a function sees the functions that stand before it")
    choices = [*frame.functions, *hints.operations()]
    help = hints.INSTEAD.get(name) or did_you_mean(name, choices) or "`gradcheck ops` lists all"
    return fail(func, "GC905", f"unknown operation `{name}`", help)


def _call_op(frame: Frame, row: Op, node: ast.Call) -> Value:
    """A call of a row: arrays first, then static keywords, by position or by name."""
    given = _bound(frame, row, node)
    arrays: list[tuple[Value, ast.expr]] = []
    keywords: dict[str, Any] = {}
    wrong = given is None
    for name, (value, part) in (given or {}).items():
        if isinstance(value, Poison):
            wrong = True
        elif name not in row.keywords:
            arrays.append((value, part))
        elif isinstance(value, Static):
            keywords[name] = value.value
            wrong |= not _keyword_fits(frame, row, name, value.value, part)
        else:
            wrong = True
            frame.context.fail(part, "GC904", *_must_be_known(row, name))
    if wrong:
        return POISON
    if row.arrays[-1].startswith("*"):
        spread = _spread(frame, row, *arrays[0])
        if isinstance(spread, Poison):
            return POISON
        arrays = spread
    # Defaults are written out: what runs a program need not know the table's.
    complete = {name: keywords.get(name, default) for name, default in row.keywords.items()}
    return emit(frame, row, arrays, complete, node)


def _bound(frame: Frame, row: Op, node: ast.Call) -> dict[str, tuple[Value, ast.expr]] | None:
    """The arguments by the row's names in the row's order; None after a mistake, which is told."""
    arrays = [name.removeprefix("*") for name in row.arrays]
    names = [*arrays, *row.keywords]
    given: dict[str, tuple[Value, ast.expr]] = {}
    context = frame.context
    count = len(context.errors)
    for position, part in enumerate(node.args):
        value = evaluate(frame, part)
        if position < len(names):
            given[names[position]] = (value, part)
        else:
            context.fail(
                part, "GC904", f"`{row.name}` takes at most {_count(len(names))}", _usage(row)
            )
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        assert keyword.arg is not None
        if keyword.arg not in names:
            same = _SAME_KEYWORDS.get(keyword.arg)
            guess = f"did you mean `{same}`?" if same in names else did_you_mean(keyword.arg, names)
            help = f"{guess} {_usage(row)}".strip()
            context.fail(keyword, "GC904", f"`{row.name}` has no `{keyword.arg}`", help)
        elif keyword.arg in given:
            context.fail(keyword, "GC904", f"`{keyword.arg}` is given twice")
        else:
            given[keyword.arg] = (value, keyword.value)
    missing = [name for name in arrays if name not in given]
    missing += [n for n, default in row.keywords.items() if default is REQUIRED and n not in given]
    if missing and len(context.errors) == count:
        message = f"`{row.name}` needs {' and '.join(missing)}"
        context.fail(node, "GC904", message, _usage(row))
    if missing or len(context.errors) > count:
        return None
    return {name: given[name] for name in names if name in given}


def _usage(row: Op) -> str:
    """sum(x, axis=None, keepdims=False)"""
    arrays = [f"[{name[1:]}1, {name[1:]}2, ...]" if name[0] == "*" else name for name in row.arrays]
    keywords = [
        n if default is REQUIRED else f"{n}={default}" for n, default in row.keywords.items()
    ]
    return f"{row.name}({', '.join([*arrays, *keywords])})"


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


def _must_be_known(row: Op, name: str) -> tuple[str, str]:
    if row.name in ("max", "min"):
        return f"`{name}` must be a number", f"of two values: {row.name}imum(a, b)"
    if row.name == "clip":
        return f"`{name}` must be a number", "with arrays: minimum(maximum(x, low), high)"
    return f"`{name}` must be known before the run", "a number, a constant or a loop variable"


def _keyword_fits(frame: Frame, row: Op, name: str, value: Any, part: ast.expr) -> bool:
    """Whether a static argument is of the type that the row can use."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    many = isinstance(value, tuple) and all(
        isinstance(one, int) and not isinstance(one, bool) and abs(one) < 2**62 for one in value
    )
    if value is None and row.keywords[name] is None:
        return True
    if name in ("axis", "axes", "shape"):
        fits, wanted = (whole and abs(value) < 2**62) or many, "a whole number or a tuple of them"
    elif name == "keepdims":
        fits, wanted = isinstance(value, bool), "True or False"
    else:
        fits, wanted = isinstance(value, int | float), "a number"
    if not fits:
        message = f"`{name}` of {row.name} must be {wanted}, not {value!r}"
        frame.context.fail(part, "GC904", message, _usage(row))
    return fits


def _spread(
    frame: Frame, row: Op, value: Value, part: ast.expr
) -> list[tuple[Value, ast.expr]] | Poison:
    """The elements of a list argument, each with its own place where the list is written here."""
    items: tuple[Value, ...] = ()
    if isinstance(value, Items):
        items = value.items
    elif isinstance(value, Static) and isinstance(value.value, tuple):
        items = tuple(Static(one) for one in value.value)
    if isinstance(value, Ref) or not items:
        message = f"`{row.name}` needs a list of values"
        return frame.context.fail(part, "GC904", message, f"write {row.name}([a, b])")
    own = part.elts if isinstance(part, ast.List | ast.Tuple) else [part] * len(items)
    return list(zip(items, own, strict=True))

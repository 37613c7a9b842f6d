"""Calls of operations in the op table, and of the formula's own functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.keywords import CHOICES, KEYWORDS, KeywordType
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.formula import hints
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
from gradcheck_cli.formula.evaluation import EXPRESSIONS, evaluate
from gradcheck_cli.formula.expressions import emit, misfit
from gradcheck_cli.formula.functions import call_function
from gradcheck_cli.formula.shapes import check_axes
from gradcheck_cli.formula.static import as_constant
from reference_engine.errors import ShapeError
from reference_engine.op import REQUIRED, TABLE, Op, Several, find, find_several

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
    "ddof": "correction",
    "p": "ord",
    "order": "ord",
    "epsilon": "eps",
    "fill": "fill_value",
    "indices_or_sections": "sections",
}


def _call(frame: Frame, node: ast.expr) -> Value:
    """name(arguments). Raises Problem if there is no such name."""
    assert isinstance(node, ast.Call)
    func = node.func
    if isinstance(func, ast.Attribute):
        parts: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        text = ", ".join(frame.context.positions.fragment(part) for part in parts)
        message = f"`.{func.attr}(...)`: operations are called by name only"
        frame.context.fail(func, message, hints.for_attribute(func, text))
        _evaluate_all(frame, node)
        return POISON
    if not isinstance(func, ast.Name):
        raise Problem("only operations and functions can be called, by name")
    for keyword in node.keywords:
        if keyword.arg is None:
            raise Problem("`**` before an argument is not part of the formula language")
    name = func.id
    if name in frame.functions:
        return call_function(frame, frame.functions[name], node)
    row = None if name == "getitem" else find(name)
    if row is not None:
        return _call_op(frame, row, node)
    several = find_several(name)
    if several is not None:
        return _call_several(frame, several, node)
    _evaluate_all(frame, node)
    return _unknown(frame, func)


def _evaluate_all(frame: Frame, node: ast.Call) -> None:
    """Evaluates the arguments of a wrong call, so that mistakes inside them are reported, too."""
    for part in (*node.args, *(keyword.value for keyword in node.keywords)):
        if not isinstance(part, ast.Starred):
            evaluate(frame, part)


def _unknown(frame: Frame, func: ast.Name) -> Poison:
    """Reports a name that cannot be called: why, and which name was probably meant."""
    name, fail = func.id, frame.context.fail
    if name in hints.FORBIDDEN or name.startswith("__"):
        message = f"`{name}` is not part of the formula language"
        return fail(func, message, "a formula cannot reach the interpreter or any file")
    if name == frame.function:
        return fail(func, f"`{name}` calls itself", "recursion is not part of the language")
    if name in frame.variables or name in frame.context.constants:
        message = f"`{name}` is a value and cannot be called"
        return fail(func, message, f"to multiply, write {name} * (...)", Codes.UNKNOWN_NAME)
    if any(function.name == name for function in frame.context.functions):
        message = f"`{name}` is not defined yet at this point"
        help = "a function can call only the functions that are defined before it"
        return fail(func, message, help, Codes.UNKNOWN_NAME)
    choices = [*frame.functions, *hints.operations()]
    help = hints.INSTEAD.get(name) or did_you_mean(name, choices) or "`gradcheck ops` lists all"
    return fail(func, f"unknown operation `{name}`", help, Codes.UNKNOWN_NAME)


def _call_op(frame: Frame, row: Op, node: ast.Call) -> Value:
    """A call of a row: arrays first, then static keywords, each by position or by name."""
    given = _arrays_and_keywords(frame, row, node)
    if given is None:
        return POISON
    arrays, keywords = given
    if row.arrays and row.arrays[-1].startswith("*"):
        spread = _spread(frame, row, arrays)
        if isinstance(spread, Poison):
            return POISON
        arrays = spread
    # Defaults are written out: what runs a program need not know the table's.
    complete = {name: keywords.get(name, default) for name, default in row.keywords.items()}
    return emit(frame, row, arrays, complete, node)


def _call_several(frame: Frame, function: Several, node: ast.Call) -> Value:
    """A call of a function with several results: one operation for each result, on the same
    arguments."""
    given = _arrays_and_keywords(frame, function, node)
    if given is None:
        return POISON
    arrays, keywords = given
    refs = [frame.node_of(value, part) for value, part in arrays]
    nodes = frame.builder.nodes
    shapes = [nodes[ref.index].shape for ref in refs if isinstance(ref, Ref)]
    if len(shapes) < len(refs):
        return POISON
    complete = {**function.keywords, **keywords}
    try:
        check_axes(function.name, shapes, complete)
        parts = function.parts(*shapes, **complete)
    except Problem as problem:
        return misfit(frame, node, shapes, problem)
    except (ValueError, IndexError, TypeError, ArithmeticError) as error:
        reason = error.reason if isinstance(error, ShapeError) else str(error)
        return misfit(frame, node, shapes, ShapeProblem(reason, usage(function)))
    values = list(zip(refs, [part for _, part in arrays], strict=True))
    results = tuple(
        emit(frame, row, values, {**row.keywords, **chosen}, node) for row, chosen in parts
    )
    return POISON if any(isinstance(one, Poison) for one in results) else Items(results)


def _arrays_and_keywords(
    frame: Frame, row: _Signature, node: ast.Call
) -> tuple[list[tuple[Value, ast.expr]], dict[str, Any]] | None:
    """The arrays and the keywords of a call; None after a mistake, which is reported."""
    given = _bound(frame, row, node)
    arrays: list[tuple[Value, ast.expr]] = []
    keywords: dict[str, Any] = {}
    wrong = given is None
    for name, (value, part) in (given or {}).items():
        if isinstance(value, Poison):
            wrong = True
        elif name not in row.keywords:
            arrays.append((_array(frame, row, name, value, part), part))
        elif isinstance(value, Static):
            keywords[name] = _as_argument(KEYWORDS[name], value.value)
            if not (value.value is None and _may_be_none(row, name)):
                wrong |= not _fits(frame, row.name, name, value.value, part, usage(row))
        else:
            wrong = True
            frame.context.fail(part, *_must_be_known(row, name))
    return None if wrong else (arrays, keywords)


def _may_be_none(row: _Signature, name: str) -> bool:
    """Whether the keyword may be None: if None is its default, or it is the axis of a reduction
    (None means all axes)."""
    return row.keywords[name] is None or (name == "axis" and "keepdims" in row.keywords)


def _array(frame: Frame, row: _Signature, name: str, value: Value, part: ast.expr) -> Value:
    """An array argument. A list of numbers or values, as in take(x, [0, 2]), is stacked to an
    array."""
    items = entries_of(value)
    if not items or f"*{name}" in row.arrays or isinstance(part, ast.Call):
        return value
    own = part.elts if isinstance(part, ast.List | ast.Tuple) else [part] * len(items)
    rows = [
        (_array(frame, row, name, item, place), place)
        for item, place in zip(items, own, strict=True)
    ]
    return emit(frame, TABLE["stack"], rows, {"axis": 0}, part)


def _bound(
    frame: Frame, row: _Signature, node: ast.Call
) -> dict[str, tuple[Value, ast.expr]] | None:
    """The arguments by their names in the row, in the order of the row; None after a mistake, which
    is reported.

    A text (the subscripts of `einsum`) stands before the arrays, unless it is given by name. Any
    number of arrays may be written one by one (then at least two), or as a list, with or without
    keywords.
    """
    arrays = [name.removeprefix("*") for name in row.arrays]
    texts = _texts_of(row)
    names = [*texts, *arrays, *(n for n in row.keywords if n not in texts and n != "dtype")]
    named = [keyword.arg for keyword in node.keywords if keyword.arg in texts]
    places = [name for name in names if name not in named]
    given: dict[str, tuple[Value, ast.expr]] = {}
    context = frame.context
    count = len(context.errors)
    positional = node.args
    if texts and row.arrays[-1].startswith("*"):
        positional = _gathered(node, len(texts) - len(named))
    for position, part in enumerate(positional):
        value = evaluate(frame, part)
        if position < len(places):
            given[places[position]] = (value, part)
        else:
            most = "1 argument" if len(names) == 1 else f"{len(names)} arguments"
            context.fail(part, f"`{row.name}` takes at most {most}", usage(row))
    for keyword in node.keywords:
        value = evaluate(frame, keyword.value)
        assert keyword.arg is not None
        if keyword.arg not in names:
            _no_such_keyword(frame, row, keyword, names)
        elif keyword.arg in given:
            context.fail(keyword, f"`{keyword.arg}` is given twice")
        else:
            given[keyword.arg] = (value, keyword.value)
    missing = [name for name in arrays if name not in given]
    missing += [n for n, default in row.keywords.items() if default is REQUIRED and n not in given]
    if missing and len(context.errors) == count:
        message = f"`{row.name}` needs {' and '.join(missing)}"
        context.fail(node, message, usage(row))
    if missing or len(context.errors) > count:
        return None
    return {name: given[name] for name in names if name in given}


def _no_such_keyword(frame: Frame, row: _Signature, keyword: ast.keyword, names: list[str]) -> None:
    """Reports a keyword that is not in `names`."""
    name = keyword.arg or ""
    same = _SAME_KEYWORDS.get(name)
    guess = f"did you mean `{same}`?" if same in names else did_you_mean(name, names)
    help = f"{guess} {usage(row)}".strip()
    frame.context.fail(keyword, f"`{row.name}` has no `{name}`", help)


def _gathered(node: ast.Call, texts: int) -> list[ast.expr]:
    """The arrays of einsum("ij,jk->ik", a, b) as one list, after this many texts."""
    text, arrays = node.args[:texts], node.args[texts:]
    if not arrays or (len(arrays) == 1 and isinstance(arrays[0], ast.List | ast.Tuple)):
        return node.args
    together = ast.copy_location(ast.Tuple(arrays, ast.Load()), arrays[0])
    together.end_lineno, together.end_col_offset = arrays[-1].end_lineno, arrays[-1].end_col_offset
    return [*text, together]


def _must_be_known(row: _Signature, name: str) -> tuple[str, str]:
    if row.name in ("max", "min"):
        return f"`{name}` must be a number", f"for two values: {row.name}imum(a, b)"
    if row.name == "clip":
        return f"`{name}` must be a number", "for arrays: minimum(maximum(x, low), high)"
    if KEYWORDS[name] == "text":
        return f"`{name}` of {row.name} must be a string", usage(row)
    return f"`{name}` must be known before the run", "a number, a constant or a loop variable"


def _spread(
    frame: Frame, row: Op, given: list[tuple[Value, ast.expr]]
) -> list[tuple[Value, ast.expr]] | Poison:
    """The elements of a list argument. Each has its own place if the list is written in this
    call."""
    ((value, part),) = given
    items = entries_of(value)
    if isinstance(value, Ref) and _texts_of(row):
        return given  # one array for einsum
    if isinstance(value, Ref) or not items:
        message = f"`{row.name}` needs a list of values"
        return frame.context.fail(part, message, f"write {row.name}([a, b])")
    own = part.elts if isinstance(part, ast.List | ast.Tuple) else []
    if len(own) != len(items):  # a variable, or the entries of one: [*ys, y]
        own = [part] * len(items)
    return list(zip(items, own, strict=True))


EXPRESSIONS[ast.Call] = _call


def _is_small_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and not _is_large(value)


def _wholes(value: Any) -> bool:
    return _is_small_integer(value) or (
        isinstance(value, tuple) and all(map(_is_small_integer, value))
    )


def _is_large(value: Any) -> bool:
    """Whether it contains a whole number larger than any index or shift can be."""
    if isinstance(value, tuple):
        return any(map(_is_large, value))
    return isinstance(value, int) and not -(2**62) < value < 2**62


def _pairs(value: Any) -> bool:
    return _wholes(value) or (isinstance(value, tuple) and all(map(_wholes, value)))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FITS: dict[KeywordType, tuple[Callable[[Any], bool], str]] = {
    "whole": (_is_small_integer, "a whole number"),
    "wholes": (_wholes, "a whole number or a tuple of them"),
    "pairs": (_pairs, "a whole number, a pair, or a pair for each axis"),
    "flag": (lambda value: isinstance(value, bool), "True or False"),
    "number": (_number, "a number"),
    "exact": (_number, "a number"),
    "text": (lambda value: isinstance(value, str), 'a string such as "ij,jk->ik"'),
}


def _as_argument(kind: KeywordType, value: Any) -> Any:
    """The value of a keyword. A number that takes part in the arithmetic is limited like a constant
    of the formula."""
    return as_constant(value) if kind in ("number", "exact") and _number(value) else value


def _fits(frame: Frame, op: str, name: str, value: Any, part: ast.expr, usage: str) -> bool:
    """Whether `value` has the type of the keyword. If not, this is reported."""
    accepts, wanted = _FITS[KEYWORDS[name]]
    words = CHOICES.get(name)
    if accepts(value) and (words is None or value in words):
        return True
    if _is_large(value):
        wanted = "smaller than 2**62"
    if words is not None:
        wanted = f"{', '.join(map(_quoted, words[:-1]))} or {_quoted(words[-1])}"
        guess = did_you_mean(value, words) if isinstance(value, str) else ""
        usage = f"{guess} {usage}".strip()
    message = f"`{name}` of {op} must be {wanted}, not {_quoted(value)}"
    frame.context.fail(part, message, usage)
    return False


def _quoted(value: Any) -> str:
    """The value as it is written in a formula."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


class _Signature(Protocol):
    """The part of a signature that rows and functions with several results have in common."""

    @property
    def name(self) -> str: ...

    @property
    def arrays(self) -> tuple[str, ...]: ...

    @property
    def keywords(self) -> Mapping[str, Any]: ...


def usage(row: _Signature) -> str:
    """`sum(x, axis=None, keepdims=False)`. A keyword without a default has no `=`; texts stand
    before the arrays."""
    texts = _texts_of(row)
    arrays = [
        name
        if name[0] != "*"
        else f"{name[1:]}1, {name[1:]}2, ..."
        if texts
        else f"[{name[1:]}1, {name[1:]}2, ...]"
        for name in row.arrays
    ]
    keywords = [
        name if default is REQUIRED else f"{name}={default!r}"
        for name, default in row.keywords.items()
        if name not in texts and name != "dtype"
    ]
    return f"{row.name}({', '.join([*texts, *arrays, *keywords])})"


def _texts_of(row: _Signature) -> list[str]:
    """The names of the text arguments that stand before the arrays (the subscripts of einsum)."""
    required = [name for name, default in row.keywords.items() if default is REQUIRED]
    return [name for name in required if KEYWORDS.get(name) == "text"]

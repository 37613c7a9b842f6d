"""Copy functions of gradcheck's own tables into a script, with all that they call, so that the
script does not import gradcheck."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gradcheck_cli.engines.kit.lowerings import (
    Composed,
    Limited,
    Loss,
    Lowering,
    Missing,
    Renamed,
    Table,
)
from gradcheck_cli.explain.fixes.dialects import CannotSay, literal

_OURS = "gradcheck_cli"
_ROWS = "xp"  # the name of the namespace of rows inside compositions


class Copies:
    """The copies that one script needs, of functions whose first argument is the framework.
    `prefix` is the script's name of the framework. No copy has a name in `taken`. Unless `deep`, a
    copy calls the framework alone, because a user may want to read it."""

    def __init__(self, table: Table, prefix: str, taken: Collection[str], deep: bool) -> None:
        self._table = table
        self._deep = deep
        self.prefix = prefix
        self._taken = {prefix, *taken}
        self._names: dict[Any, str] = {}  # names of the copies, by code
        self.definitions: dict[str, str] = {}
        self.imports: set[str] = set()

    def call(self, op: str, arrays: Sequence[str], keywords: Mapping[str, str]) -> str:
        """A call of a row with these texts as arguments. Raises CannotSay."""
        return self._call(op, self._table.get(op, Missing("no row")), arrays, keywords)

    def _call(
        self, op: str, lowering: Lowering, arrays: Sequence[str], keywords: Mapping[str, str]
    ) -> str:
        match lowering:
            case Missing():
                raise CannotSay(op)
            case Limited():
                return self._call(op, lowering.call, arrays, keywords)
            case Loss() if not self._deep:
                raise CannotSay(op)
            case Loss():
                terms = {name: text for name, text in keywords.items() if name != "reduction"}
                found = self._call(op, lowering.terms, arrays, terms)
                reduction = ast.literal_eval(keywords["reduction"])
                return found if reduction == "none" else self.call(reduction, [found], {})
            case str():
                return _call_text(f"{self.prefix}.{lowering}", arrays, keywords)
            case Renamed():
                renamed = {lowering.names.get(name, name): text for name, text in keywords.items()}
                renamed |= {name: literal(value) for name, value in lowering.also.items()}
                text = _call_text(f"{self.prefix}.{lowering.call}", arrays, renamed)
                return text if lowering.part is None else f"{text}.{lowering.part}"
            case Composed():
                return self._of(op, lowering.function, arrays, keywords)
            case _:
                return self._of(op, lowering, arrays, keywords)

    def _of(
        self,
        op: str,
        function: Callable[..., Any],
        arrays: Sequence[str],
        keywords: Mapping[str, str],
    ) -> str:
        if not isinstance(function, FunctionType):
            raise CannotSay(op)
        name = self.copied(function, op if function.__closure__ else function.__name__)
        return _call_text(name, [self.prefix, *arrays], keywords)

    def copied(self, function: FunctionType, name: str) -> str:
        """The name of the copy of a function, which is made once. Raises CannotSay."""
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closed = {name: cell.cell_contents for name, cell in cells}
        if closed and not self._deep:
            raise CannotSay(name)
        key = function.__code__, repr(sorted(closed.items()))
        if key not in self._names:
            self._names[key] = self._unique(name)
            self.definitions[self._names[key]] = ""  # added again below, after what it calls
            text = self._source(function, self._names[key], closed)
            del self.definitions[self._names[key]]
            self.definitions[self._names[key]] = text
        return self._names[key]

    def _unique(self, name: str) -> str:
        unused, count = name, 1
        while unused in self._taken:
            count += 1
            unused = f"{name}_{count}"
        self._taken.add(unused)
        return unused

    def _source(self, function: FunctionType, name: str, closed: Mapping[str, Any]) -> str:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
            raise CannotSay(name)
        tree.name = name
        outside = _loaded(function.__code__) & function.__globals__.keys()
        known = {one: function.__globals__[one] for one in outside}
        given = {one: _expression(self._value(value)) for one, value in closed.items()}
        written = _Written(self, known).visit(tree)
        has_words = ast.get_docstring(tree) is not None
        assigned = [ast.Assign([ast.Name(one)], value) for one, value in given.items()]
        written.body[has_words:has_words] = assigned
        return ast.unparse(ast.fix_missing_locations(written))

    def _value(self, value: Any) -> str:
        """The text of a value of a module or an enclosing function."""
        if isinstance(value, FunctionType) and value.__module__.startswith(_OURS):
            return self.copied(value, value.__name__)
        if value is None or isinstance(value, bool | int | float | str):
            return literal(value)
        if isinstance(value, tuple | list):
            inside = ", ".join(map(self._value, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside},)"
        if isinstance(value, dict):
            inside = ", ".join(f"{key!r}: {self._value(one)}" for key, one in value.items())
            return f"{{{inside}}}"
        raise CannotSay(repr(value))

    def global_value(self, name: str, value: Any) -> str:
        """The text of a global name in a script; functions of libraries are imported."""
        if isinstance(value, ModuleType) and not value.__name__.startswith(_OURS):
            same = name == value.__name__
            self.imports.add(f"import {value.__name__}{'' if same else f' as {name}'}")
            return name
        if not self._deep:
            raise CannotSay(name)
        module = getattr(value, "__module__", None) or _OURS
        if callable(value) and not module.startswith(_OURS):
            self.imports.add(f"from {module} import {name}")
            return name
        return self._value(value)

    def row(self, op: str, node: ast.Call) -> ast.expr:
        """A call of a row inside a composition."""
        arrays = [ast.unparse(one) for one in node.args]
        is_plain = isinstance(self._table.get(op), str)
        if any(one.arg is None for one in node.keywords) or not (self._deep or is_plain):
            raise CannotSay(op)
        keywords = {one.arg or "": ast.unparse(one.value) for one in node.keywords}
        return _expression(self.call(op, arrays, keywords))


class _Written(ast.NodeTransformer):
    """A function without annotations, with its global names as the script has them."""

    def __init__(self, copies: Copies, known: Mapping[str, Any]) -> None:
        self._copies = copies
        self._known = known

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        name = self._copies.prefix if node.arg == _ROWS else node.arg
        return ast.arg(name)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        return ast.Assign([node.target], self.visit(node.value))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func
        node = ast.Call(
            called,
            [self.visit(one) for one in node.args],
            [self.visit(one) for one in node.keywords],
        )
        match called:
            case ast.Attribute(ast.Name(name), row) if name == _ROWS:
                return self._copies.row(row, node)
        node.func = self.visit(called)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A function of another gradcheck module, such as `shapes.moveaxis`, becomes its copy."""
        if isinstance(node.value, ast.Name):
            module = self._known.get(node.value.id)
            if isinstance(module, ModuleType) and module.__name__.startswith(_OURS):
                return ast.Name(self._copies.global_value(node.attr, getattr(module, node.attr)))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == _ROWS:
            return ast.Name(self._copies.prefix)
        if node.id in self._known and isinstance(node.ctx, ast.Load):
            return _expression(self._copies.global_value(node.id, self._known[node.id]))
        return node


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _loaded(code: CodeType) -> set[str]:
    """The names that a function, and functions inside it, may read from outside."""
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return {*code.co_names}.union(*map(_loaded, inner)) - {*code.co_varnames, *code.co_cellvars}


def _call_text(name: str, arrays: Sequence[str], keywords: Mapping[str, str]) -> str:
    return f"{name}({', '.join([*arrays, *(f'{key}={text}' for key, text in keywords.items())])})"

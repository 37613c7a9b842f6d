"""Replaces one expression in functions of the user while a layer runs.

The module is not imported again. Its functions temporarily get other code, compiled from the same
source with another expression. Objects that the functions hold, and objects that hold the
functions, stay the same.
"""

from __future__ import annotations

import ast
import copy
import gc
import linecache
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.tracebacks import LIBRARIES, OURS, REFERENCE

_SEEN = "__gradcheck_seen__"
_SHARED = "__gradcheck_shared__"
_WHOLE = ""  # the text of an expression among those of its parts
_PARTS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.UnaryOp)
_INNER = (ast.expr, ast.keyword)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MOST_HELD = 30_000
"""Objects that are looked through for functions, the nearest first: a tenth of a second.
A layer in a test of a large suite reaches ten times as many, all of pytest's among them."""
_Key = tuple[str, int]  # of a function in a file: its qualified name, its first line


class NotRewritable(EngineFault):
    """As far as the source shows, no function of the user evaluates the expression."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One evaluation of an expression: its value, and the other numbers that were available, by
    their text: local variables and their attributes, and the parts of the expression. `tried` are
    the values of other expressions in its place, None for those that raised."""

    value: Array
    named: Values
    tried: Sequence[Array | None] = ()


class Expression:
    """An expression in a file that one of the `callers` evaluates. Raises NotRewritable."""

    def __init__(self, place: Place, *callers: Any) -> None:
        path = os.path.abspath(place.source.path)
        self._functions = _functions_at(path, place.span.line, callers)
        if not self._functions:
            raise NotRewritable(f"there is no function at {place.source.path}")
        self._path = self._functions[0].__code__.co_filename
        self._lines: list[bytes] = [line.encode() for line in linecache.getlines(self._path)]
        self._span = place.span
        try:
            module = ast.parse(b"".join(self._lines))
            self._text = self._statement(module)
            # a call of what a module imports is compiled in another way than other calls
            self._imports = list(_imports(module))
            self._own = _codes(self._compiled(ast.parse(self._text)))
        except SyntaxError as error:
            raise NotRewritable(f"{place.source.path} cannot be read") from error
        self._tree_and_expression()

    def _statement(self, module: ast.Module) -> str:
        """The statement of the module that contains the expression, on its own lines."""
        for node in module.body:
            decorators = getattr(node, "decorator_list", ())
            first, last = min(one.lineno for one in (node, *decorators)), node.end_lineno or 0
            if first <= self._span.line <= last:
                own = b"".join(self._lines[first - 1 : last])
                return str("\n" * (first - 1) + own.decode())
        return ""

    def _compiled(self, statement: ast.Module) -> CodeType:
        module = ast.Module([*self._imports, *statement.body], [])
        return compile(module, self._path, "exec", dont_inherit=True)

    def _tree_and_expression(self) -> tuple[ast.Module, ast.expr]:
        """A new syntax tree of the statement, and the expression in it."""
        tree = ast.parse(self._text)
        for node in ast.walk(tree):
            if isinstance(node, ast.expr) and self._stands_at(node):
                return tree, node
        raise NotRewritable("there is no separate expression there")

    def _stands_at(self, node: ast.expr) -> bool:
        span = self._span
        if (node.lineno, node.end_lineno) != (span.line, span.end_line):
            return False
        first, last = (self._lines[line - 1].decode() for line in (span.line, span.end_line))
        begin = len(first[: span.column - 1].encode())
        end = len(last[: span.end_column - 1].encode())
        return (node.col_offset, node.end_col_offset) == (begin, end)

    @contextmanager
    def replacing(self, text: str, names: Mapping[str, Any]) -> Iterator[None]:
        """Inside the block, the expression is replaced by this text, which may use `names` in
        addition to its own. Raises NotRewritable."""

        def write(expression: ast.expr) -> ast.expr:
            """With the old one in a branch that never runs: what a closure holds stays the same."""
            new = ast.parse(text, mode="eval").body
            return ast.IfExp(ast.Constant(True), new, expression)

        with self._replacing(write, names):
            yield

    @contextmanager
    def collecting(
        self, numbers: Callable[[Any], Array | None], others: Sequence[ast.expr] = ()
    ) -> Iterator[list[Seen]]:
        """Inside the block, collects every evaluation of the expression, in order. `numbers`
        converts a value, or returns None if it has none. `others` are expressions that are tried at
        the same place. Raises NotRewritable."""
        values_seen: list[Seen] = []
        parts: dict[str, Any] = {}
        tried = _Together(others, self._path)

        def seen(text: str, value: Any) -> Any:
            if text == _WHOLE:
                parts[text] = numbers(value)
                frame = sys._getframe(1)
                near = {name: numbers(one) for name, one in _variables(frame.f_locals)}
                named = {name: one for name, one in {**parts, **near}.items() if one is not None}
                whole = named.pop(_WHOLE, None)
                if whole is not None:
                    values_seen.append(Seen(whole, named, tried.values(frame, numbers)))
                parts.clear()
            else:
                parts.update((name, numbers(one)) for name, one in _with_parts(text, value))
            return value

        def watch(expression: ast.expr) -> ast.expr:
            return _call(_WHOLE, _Watch(self._lines).generic_visit(expression))

        with self._replacing(watch, {_SEEN: seen}):
            yield values_seen

    @contextmanager
    def _replacing(
        self, make: Callable[[ast.expr], ast.expr], names: Mapping[str, Any]
    ) -> Iterator[None]:
        tree, old = self._tree_and_expression()
        new = _Replace(old, make(old)).visit(tree)
        codes = _codes(self._compiled(ast.fix_missing_locations(new)))
        changed: list[tuple[FunctionType, CodeType]] = []
        added: list[tuple[dict[str, Any], str]] = []
        try:
            for function in self._functions:
                code = self._replacement(function.__code__, codes)
                if code is None:
                    continue
                own = function.__globals__
                for name, value in names.items():
                    if name not in own:
                        own[name] = value
                        added.append((own, name))
                changed.append((function, function.__code__))
                function.__code__ = code
            if not changed:
                raise NotRewritable("the code that runs there differs from its source")
            yield
        finally:
            for function, code in changed:
                function.__code__ = code
            for own, name in added:
                del own[name]

    def _replacement(
        self, code: CodeType, codes: Mapping[_Key, Sequence[CodeType]]
    ) -> CodeType | None:
        """The code that replaces this one; None if the source is not the running code. Lambdas on
        one line are told apart by their columns."""
        every, new = self._own.get(_key(code), ()), codes.get(_key(code), ())
        same = [i for i, own in enumerate(every) if own.co_code == code.co_code]
        if len(same) > 1:
            where = list(code.co_positions())
            same = [i for i in same if list(every[i].co_positions()) == where]
        if len(same) != 1 or len(every) != len(new):
            return None
        (place,) = same
        return new[place] if new[place].co_freevars == code.co_freevars else None


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno


def _imports(scope: ast.AST) -> Iterator[ast.stmt]:
    """The imports of a module outside its functions and classes."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.stmt | ast.ExceptHandler) and not isinstance(node, _DEFINITIONS):
            yield from _imports(node)


def _codes(module: CodeType) -> dict[_Key, list[CodeType]]:
    """The code of every function, in the order of the source."""
    by_key: dict[_Key, list[CodeType]] = {}
    waiting = [module]
    while waiting:
        for code in waiting.pop().co_consts:
            if isinstance(code, CodeType):
                by_key.setdefault(_key(code), []).append(code)
                waiting.append(code)
    return by_key


def _functions_at(path: str, line: int, callers: Sequence[Any]) -> list[FunctionType]:
    """The functions that were defined around a line of a file, and that a caller can reach."""
    return [
        function
        for function in _reachable_objects(path, callers)
        if type(function) is FunctionType
        and os.path.abspath(function.__code__.co_filename) == path
        and _reaches(function.__code__, line)
    ]


def _reachable_objects(path: str, callers: Sequence[Any]) -> Iterator[Any]:
    """Everything that the callers and the module of this file hold, except through modules or
    library classes."""
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType)]
    others = {one.__name__: one for one in modules if not _is_users(one)}
    known = {id(one) for one in others.values()} | {id(vars(one)) for one in others.values()}
    spaces = (vars(one) for one in modules)
    first = [*callers, *(v for v in spaces if os.path.abspath(str(v.get("__file__"))) == path)]
    # They stay: of nothing that is `known` may the id be given away. Each is there once.
    waiting: list[Any] = list({id(one): one for one in first}.values())
    known.update(map(id, waiting))
    for one in islice(waiting, MOST_HELD):
        yield one
        if isinstance(one, type) and one.__module__ in others:
            continue
        referents = {id(held): held for held in gc.get_referents(one) if id(held) not in known}
        known.update(referents)
        waiting += referents.values()


def _is_users(module: ModuleType) -> bool:
    if module.__name__ == "__main__":  # which has no file where it is typed in
        return True
    file = vars(module).get("__file__")
    return isinstance(file, str) and not file.startswith((*LIBRARIES, OURS, REFERENCE))


def _reaches(code: CodeType, line: int) -> bool:
    """Whether the line belongs to a function, or to a function inside it."""
    return any(number == line for *_, number in code.co_lines()) or any(
        isinstance(inner, CodeType) and _reaches(inner, line) for inner in code.co_consts
    )


def _variables(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Local variables, and their attributes that are numbers, by their text."""
    for name, value in found.items():
        yield from _with_parts(name, value)
        if isinstance(value, ModuleType | type):
            continue
        for attribute, part in getattr(value, "__dict__", {}).items():
            if isinstance(part, int | float):
                yield f"{name}.{attribute}", part


def _with_parts(text: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value by its text. For complex numbers also the real parts, if they are attributes."""
    yield text, value
    if "complex" in str(getattr(value, "dtype", "")) and hasattr(value, "real"):
        for part in ("real", "imag"):
            yield f"{atom(text)}.{part}", getattr(value, part)


def atom(text: str) -> str:
    """The text as an operand, in brackets if it is an operation."""
    node = ast.parse(text, mode="eval").body
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return text if plain else f"({text})"


class _Together:
    """Evaluates expressions that mostly differ in one place. Parts that several of them share, as
    the same nodes of a syntax tree, run once."""

    def __init__(self, expressions: Sequence[ast.expr], path: str) -> None:
        self._path = path
        self._shared = _shared_parts(expressions)
        self._parts: dict[int, CodeType] = {}
        self._codes = [self._compiled(self._with_shared(one)) for one in expressions]

    def _with_shared(self, node: Any) -> Any:
        """The expression with calls in place of its shared parts."""
        if isinstance(node, _SCOPES):
            return node  # its parts have variables of its own
        key = id(node)
        if key not in self._shared:
            return with_parts(node, self._with_shared)
        if key not in self._parts:
            self._parts[key] = self._compiled(with_parts(node, self._with_shared))
        return ast.Call(ast.Name(_SHARED, ast.Load()), [ast.Constant(key)], [])

    def _compiled(self, node: Any) -> CodeType:
        whole = ast.fix_missing_locations(ast.Expression(node))
        return compile(whole, self._path, "eval", dont_inherit=True)

    def values(
        self, frame: FrameType, numbers: Callable[[Any], Array | None]
    ) -> list[Array | None]:
        """The values of the expressions inside a running function; None for those that raise."""
        known: dict[int, Any] = {}

        def shared(key: int) -> Any:
            if key not in known:
                known[key] = eval(self._parts[key], frame.f_globals, variables)
            return known[key]

        variables = {**frame.f_locals, _SHARED: shared}

        def value(code: CodeType) -> Array | None:
            try:
                return numbers(eval(code, frame.f_globals, variables))
            except Exception:  # nobody wrote it: it need not make sense
                return None

        return [value(code) for code in self._codes]


def _shared_parts(expressions: Sequence[ast.expr]) -> Mapping[int, ast.AST]:
    """The operations and calls that stand in several of the expressions, by `id`. Of what stands
    inside a shared part only, nothing is listed."""
    seen: set[int] = set()
    nodes: dict[int, ast.AST] = {}
    for expression in expressions:
        waiting: list[ast.AST] = [expression]
        while waiting:
            node = waiting.pop()
            if isinstance(node, _SCOPES):
                continue
            if isinstance(node, ast.Call | ast.BinOp):
                if id(node) in seen:
                    nodes[id(node)] = node
                    continue
                seen.add(id(node))
            waiting += ast.iter_child_nodes(node)
    return nodes


def with_parts(node: Any, new: Callable[[Any], Any]) -> Any:
    """The node with `new` of each expression in it, or the node itself if that changes nothing."""
    changed: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, _INNER):
            made = new(value)
            if made is not value:
                changed[name] = made
        elif isinstance(value, list):
            several = [new(one) if isinstance(one, _INNER) else one for one in value]
            if any(one is not old for one, old in zip(several, value, strict=True)):
                changed[name] = several
    if not changed:
        return node
    copied = copy.copy(node)
    vars(copied).update(changed)
    return copied


def _call(text: str, value: Any) -> ast.Call:
    return ast.Call(ast.Name(_SEEN, ast.Load()), [ast.Constant(text), value], [])


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


class _Watch(ast.NodeTransformer):
    """Watches every part of an expression that is a value of its own, by its text in the `lines` of
    its file."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _SCOPES):
            return node
        text = self._text(node) if isinstance(node, _PARTS) else None
        seen = self.generic_visit(node)
        if text is None or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return seen
        return ast.copy_location(_call(text, seen), node)

    def _text(self, node: ast.expr) -> str:
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        lines = [*lines[:-1], lines[-1][: node.end_col_offset]]
        text = b"".join([lines[0][node.col_offset :], *lines[1:]]).decode()
        return " ".join(text.split())

"""Finds the expression in the user's files that is running."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from gradcheck_cli.domain.place import Place, Source, Span, cell_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.tracebacks import LIBRARIES, OURS, dumped_line

FRAMEWORKS = ("torch", "tensorflow", "keras", "numpy", "jax", "jaxlib")
"""Packages whose lines are nobody's to change; those of other libraries are better than none."""

LONGEST = 12  # lines of one expression that are shown


class Places:
    """Places of one run, each made once. `watchers` are modules whose frames lie above those of the
    code that they watch."""

    def __init__(self, *watchers: str) -> None:
        self._watchers = frozenset([__name__, *watchers])
        self._known: dict[tuple[CodeType, int], Place | None] = {}

    def running(self) -> Place | None:
        """The innermost expression of the user's code that is being evaluated, between this call
        and the call of the layer; None if there is none."""
        theirs = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in self._watchers:
            frame = frame.f_back
        while frame is not None and not frame.f_code.co_filename.startswith(OURS):
            library = frame.f_code.co_filename.startswith((*LIBRARIES, "<frozen"))
            if not library:
                return self._of(frame)
            if theirs is None and not _of_a_framework(frame):
                theirs = frame
            frame = frame.f_back
        return None if theirs is None else self._of(theirs)

    def line(self) -> str:
        """The line of that expression, "layers.py:41"; empty if there is none."""
        place = self.running()
        return "" if place is None else place.line

    def of_stack(self, codes: Sequence[CodeType], instructions: Sequence[int]) -> Place | None:
        """The user's line in a stack that a framework has kept, innermost frame first."""
        theirs = None
        for code, instruction in zip(codes, instructions, strict=True):
            if code.co_filename.startswith(OURS):
                break
            frozen = code.co_filename.startswith("<frozen")
            if not frozen and not code.co_filename.startswith(LIBRARIES):
                return self._at(code, instruction)
            if theirs is None and not frozen and not _in_a_framework(code.co_filename):
                theirs = code, instruction
        return None if theirs is None else self._at(*theirs)

    def _of(self, frame: FrameType) -> Place | None:
        return self._at(frame.f_code, frame.f_lasti, frame.f_globals)

    def _at(
        self, code: CodeType, instruction: int, names: dict[str, Any] | None = None
    ) -> Place | None:
        key = code, instruction
        if key not in self._known:
            self._known[key] = _place(code, instruction, names)
        return self._known[key]


def raised_at(error: BaseException) -> Place | None:
    """The innermost expression of the user's code in which the error was raised, or the line if it
    cannot be parsed; None if there is none."""
    unread = isinstance(error, SyntaxError) and _line(error.filename or "", error.lineno or 0)
    if unread:
        return unread
    stack: list[tuple[CodeType, int]] = []
    trace = error.__traceback__
    while trace is not None:
        stack.insert(0, (trace.tb_frame.f_code, trace.tb_lasti))
        trace = trace.tb_next
    return Places().of_stack([code for code, _ in stack], [instruction for _, instruction in stack])


def stood_at(dump: str) -> Place | None:
    """The user's line that a process was executing, according to its stack dump; None if there is
    none."""
    return _line(*dumped_line(dump) or ("", 0))


def _line(path: str, number: int) -> Place | None:
    """A whole line of a file; None if it does not exist."""
    text = linecache.getline(path, number).rstrip() if path else ""
    if not text:
        return None
    span = Span(number, len(text) - len(text.lstrip()) + 1, number, len(text) + 1)
    return Place(Source(displayed_path(path), text, number), span, text.strip())


def lines(stack: Iterable[tuple[CodeType, int]]) -> Iterator[tuple[str, int]]:
    """The files and lines of a stack, innermost first, that may be shown as the place of a call:
    the innermost line outside of frameworks, and the innermost line of the user."""
    theirs, ends = False, False
    for code, instruction in stack:
        path = code.co_filename
        if path.startswith(OURS):
            if theirs:  # who calls the layer
                return
            continue  # what watches the call
        theirs = True
        library = path.startswith((*LIBRARIES, "<frozen"))
        if library and (ends or path.startswith("<frozen") or _in_a_framework(path)):
            continue
        ends = True
        line = next(islice(code.co_positions(), instruction // 2, None))[0] or 0
        yield _before_autograph(path, line) or (path, line)
        if not library:
            return


def running() -> Iterator[tuple[CodeType, int]]:
    """The stack of this call, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def returned(function: Any, *path: int | str, line: int | None = None) -> Place | None:
    """The expression that a function of the user returns at this line (None: the last), or the part
    of it that the path leads to; None if its source cannot be read."""
    read = read_function(function, line)
    value = None if read is None else read.returned_expression(*path)
    return None if read is None or value is None else read.place_of(value)


def calling(function: Any, *names: str) -> Place | None:
    """The first call of one of these names in a function, or else the first attribute of such a
    name that it reads; None if there is none, or its source cannot be read."""
    read = read_function(function)
    if read is None:
        return None
    for node in read.own:
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Name) and called is not node:
            name = called.id
        elif isinstance(called, ast.Attribute) and isinstance(called.ctx, ast.Load):
            name = called.attr
        else:
            continue
        if name in names and isinstance(node, ast.expr):
            return read.place_of(node)
    return None


def storing(function: Any, name: str) -> Place | None:
    """The first assignment to an attribute of this name in a function; None if there is none, or
    its source cannot be read."""
    read = read_function(function)
    if read is None:
        return None
    for node in read.own:
        if isinstance(node, ast.Assign) and name in (getattr(t, "attr", "") for t in node.targets):
            return read.place_of(node)
    return None


def ending(layer: Any) -> Place | None:
    """The place where a layer returns: its last returned expression, or the line of its definition
    if it returns nothing; None if its source cannot be read."""
    function = layer if inspect.isroutine(layer) else type(layer).__call__
    place = returned(function)
    read = None if place else read_function(function)
    if read is None or not isinstance(read.tree, ast.FunctionDef | ast.AsyncFunctionDef):
        return place
    first = read.tree.lineno
    return read.place(first, 0, first, len(read.lines[first - 1].strip().encode()))


@dataclass(frozen=True, slots=True)
class ReadFunction:
    """The source of a function: its lines as in the file, which begin at line `first` and are
    indented by `margin`. `line` is the line of the file at which a run returned, if known."""

    path: str
    lines: list[str]
    first: int
    margin: int
    tree: ast.AST
    code: CodeType
    line: int | None = None

    @property
    def body(self) -> ast.AST:
        """The function itself, or a lambda inside of a statement if it is the only one."""
        if self.code.co_name != "<lambda>":
            return self.tree
        stretches = {(begin, end) for *_, begin, end in self.code.co_positions()}
        mine = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Lambda) and self._stretch(node.body) in stretches
        ]
        return mine[0] if len(mine) == 1 else ast.Pass()

    @property
    def own(self) -> Iterator[ast.AST]:
        """Its statements and expressions, without those of nested functions."""
        return _own(self.body)

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(self.code.co_varnames[: self.code.co_argcount])

    def returned_expression(self, *path: int | str) -> ast.expr | None:
        """The expression that is returned at `line`, or the last one, or the body of a lambda; or
        the part of it that the path leads to, as far as the parts are written there."""
        value: ast.expr | None
        if isinstance(self.body, ast.Lambda):
            value = self.body.body
        else:
            nodes = [node for node in self.returns if node.value is not None]
            ran = [node for node in nodes if self.line == self.first - 1 + node.lineno]
            value = (ran or nodes)[-1].value if nodes else None
        for key in path:
            below = {} if value is None else _parts_of(value)
            if key not in below:
                break
            value = below[key]
        return value

    @property
    def returns(self) -> list[ast.Return]:
        """Its `return` statements."""
        return [node for node in self.own if isinstance(node, ast.Return)]

    def _stretch(self, node: ast.expr) -> tuple[int, int]:
        return node.col_offset + self.margin, (node.end_col_offset or 0) + self.margin

    def place_of(self, node: ast.expr | ast.stmt) -> Place:
        return self.place(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def place(self, line: int, column: int, last: int | None, end: int | None) -> Place:
        """The place in the file of an expression. The syntax tree counts lines from the function,
        and columns in bytes without the margin."""
        last = last or line
        text = "".join(self.lines[line - 1 : last])
        source = Source(displayed_path(self.path), text, self.first + line - 1)
        before = textwrap.dedent("".join(self.lines)).splitlines()
        span = Span(
            self.first + line - 1,
            self.margin + characters(before[line - 1], column) + 1,
            self.first + last - 1,
            self.margin + characters(before[last - 1], end or 0) + 1,
        )
        return Place(source, span, _stretch(source, span))


def _parts_of(value: ast.expr) -> Mapping[object, ast.expr]:
    """The parts of a tuple, list, dictionary or call with keywords by their places or names."""
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return dict(enumerate(parts))
        case ast.Dict(keys=keys, values=parts):
            pairs = zip(keys, parts, strict=True)
            return {key.value: part for key, part in pairs if isinstance(key, ast.Constant)}
        case ast.Call(keywords=named):
            return {one.arg: one.value for one in named}
        case _:
            return {}


def read_function(function: Any, line: int | None = None) -> ReadFunction | None:
    """The source of a function without its decorators, which returned at this line of its file in a
    run; None if it cannot be read."""
    try:
        function = inspect.unwrap(function)  # whose file is not the decorator's
        lines, first = inspect.getsourcelines(function)
        path = inspect.getsourcefile(function) or ""
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, ValueError, SyntaxError):  # a lambda amid an expression is none
        return None
    code = getattr(function, "__code__", None)
    margin = len(lines[0]) - len(lines[0].lstrip())
    return None if code is None else ReadFunction(path, lines, first, margin, tree, code, line)


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements and expressions of a function, without those of nested functions."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _own(child)


def displayed_path(path: str) -> str:
    """A path as a person writes it: relative if it is below the current folder; the name of the
    cell in a notebook."""
    cell = cell_of(path)
    if cell is not None:
        return cell
    try:
        short = os.path.relpath(path)
    except (ValueError, OSError):  # another drive, a folder that is gone
        return path
    return path if short.startswith(os.pardir) or path.startswith("<") else short


def _of_a_framework(frame: FrameType) -> bool:
    package = (frame.f_globals.get("__name__") or "").partition(".")[0]
    return package in FRAMEWORKS or package in sys.stdlib_module_names


@cache  # a recorder asks once for each operation of each turn of a loop
def _in_a_framework(path: str) -> bool:
    """Whether a file belongs to a framework."""
    for folder in LIBRARIES:
        package = os.path.relpath(path, folder).partition(os.sep)[0].removesuffix(".py")
        if package != os.pardir and (package in FRAMEWORKS or package in sys.stdlib_module_names):
            return True
    return False


def _place(code: CodeType, instruction: int, names: dict[str, Any] | None) -> Place | None:
    line, last, begin, end = next(islice(code.co_positions(), instruction // 2, None))
    if not line:
        return None
    written = _before_autograph(code.co_filename, line)
    if written is not None:
        return _line(*written)
    last = line if last is None else min(last, line + LONGEST - 1)
    lines = [linecache.getline(code.co_filename, n, names) for n in range(line, last + 1)]
    source = Source(displayed_path(code.co_filename), "".join(lines), line)
    first_text, last_text = source.line(line), source.line(last)
    if begin is None or end is None or not first_text:
        begin, end = 0, len(first_text.encode())
    column, end_column = characters(first_text, begin), characters(last_text, end)
    if begin == 0:
        column = len(first_text) - len(first_text.lstrip())
    span = Span(line, column + 1, last, end_column + 1)
    return Place(source, span, _stretch(source, span))


def _before_autograph(path: str, line: int) -> tuple[str, int] | None:
    """The user's file and line that TensorFlow's autograph rewrote as this line of a file of its
    own; None for a file of the user."""
    autograph = sys.modules.get("tensorflow.python.autograph.impl.api")
    if autograph is None or "__autograph_generated_file" not in path:
        return None
    for factories in list(autograph._TRANSPILER._cache._cache.values()):
        for factory in factories.values():
            origin = (factory.source_map or {}).get((path, line))
            if origin is not None:
                return origin.loc.filename, origin.loc.lineno
    return None


def characters(text: str, count: int) -> int:
    """The number of characters in this many bytes of UTF-8."""
    return len(text.encode()[:count].decode(errors="ignore"))


def _stretch(source: Source, span: Span) -> str:
    if span.line == span.end_line:
        return source.line(span.line)[span.column - 1 : span.end_column - 1]
    inner = [source.line(n).strip() for n in range(span.line + 1, span.end_line)]
    head = source.line(span.line)[span.column - 1 :].strip()
    return " ".join([head, *inner, source.line(span.end_line)[: span.end_column - 1].strip()])

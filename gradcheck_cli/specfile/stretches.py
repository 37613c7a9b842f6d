"""Ranges of lines of code that a spec refers to: "path.py:41", "path.py:Layer.forward"."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.synonyms import did_you_mean
from gradcheck_cli.specfile.collect import listed

FORMS = "path.py:LINE, path.py:NAME, or package.module:NAME"


class NoStretch(Exception):
    """There are no such lines. The message says why, and `help` what to write instead."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class Stretch:
    """The lines `first` to `last` of the file `path` (absolute), counted from 1."""

    path: str
    first: int
    last: int

    def has(self, path: str, line: int) -> bool:
        return self.first <= line <= self.last and os.path.realpath(path) == self.path


def is_file(target: str) -> bool:
    """Whether the target is in a file, rather than in a module that must be found first."""
    return target.partition(":")[0].endswith(".py")


def stretch(target: str, folder: str) -> Stretch:
    """The lines of a target: the statement that contains a line (without nested statements, unless
    the line is its first), or the function or class of this name. A path is relative to `folder`.
    Raises NoStretch."""
    place, separator, name = target.partition(":")
    if not separator or not name or not place:
        raise NoStretch(f"`{target}` does not say where", FORMS)
    path = os.path.realpath(_path(place, folder))
    try:
        tree = ast.parse(Path(path).read_bytes())
    except OSError:
        raise NoStretch(f"there is no file {place}", "paths are relative to the spec") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoStretch(f"{place} is not valid Python") from None
    if name.isascii() and name.isdigit():
        return _at_line(tree, path, int(name), target)
    return _stretch_of(tree, path, name, place)


def _path(place: str, folder: str) -> str:
    if place.endswith(".py"):
        return os.path.join(folder, os.path.expanduser(place))
    import importlib.util  # few specs name a stretch of a module

    try:
        module = importlib.util.find_spec(place)
    except (ImportError, ValueError, AttributeError):
        module = None
    if module is None or module.origin is None or not module.origin.endswith(".py"):
        raise NoStretch(f"there is no module `{place}` in Python", FORMS)
    return module.origin


def _at_line(tree: ast.AST, path: str, line: int, target: str) -> Stretch:
    inner = None
    for statement in ast.walk(tree):  # outer ones come first
        if isinstance(statement, ast.stmt) and _first_line(statement) <= line <= _last_line(
            statement
        ):
            inner = statement
    if inner is None:
        raise NoStretch(f"there is no statement at `{target}`")
    if _first_line(inner) < line and getattr(inner, "body", None):
        return Stretch(path, line, line)  # between the statements of a block
    return Stretch(path, _first_line(inner), _last_line(inner))


def _stretch_of(tree: ast.AST, path: str, name: str, place: str) -> Stretch:
    known = dict(_definitions(tree, ""))
    if name not in known:
        help = f"{did_you_mean(name, known)} it has: {listed(list(known)[:8])}".strip()
        raise NoStretch(f"{place} has no function or class `{name}`", help if known else "")
    return Stretch(path, _first_line(known[name]), _last_line(known[name]))


def _definitions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield f"{prefix}{child.name}", child
            yield from _definitions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.stmt):
            yield from _definitions(child, prefix)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno

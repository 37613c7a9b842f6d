"""The code that a layer reaches: files of the project, found by import statements. Nothing is run.

A library is what Python came with or what was installed beside it; its version stands for its code.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_INSTALLED = ("site-packages", "dist-packages")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_CALLED = ("forward", "call", "__call__", "apply")
"""Methods of a class that are given the inputs, the surest first."""

_NOT_INPUTS = frozenset(("self", "cls", "ctx", "training"))


class Imports(NamedTuple):
    """What a file names: files of the project, and libraries by the first part of their names."""

    files: tuple[str, ...]
    libraries: frozenset[str]


def file_of(target: str, folder: str) -> str | None:
    """The file that a target is defined in; None where it is of a library, or nowhere."""
    found = _files_of(target, folder)
    return found[-1] if found else None


def _files_of(target: str, folder: str) -> list[str]:
    """The file of a target after those of the packages that it is in."""
    place = target.partition(":")[0]
    path = os.path.join(folder, os.path.expanduser(place))
    if os.path.isfile(path):
        return [os.path.realpath(path)]
    return _modules(place.split("."), _folders(folder))


def reached(targets: Iterable[str], folder: str) -> list[str]:
    """The files of the project that hold the targets ("path.py:name", "package.module:name"), and
    all that these import, in order of their names. `folder`: what paths are relative to."""
    waiting = [file for target in targets for file in _files_of(target, folder)]
    met = set(waiting)
    while waiting:
        new = [file for file in imports(waiting.pop(), folder).files if file not in met]
        met.update(new)
        waiting += new
    return sorted(met)


def imports(file: str, folder: str) -> Imports:
    """What a file imports or includes; of one that cannot be read, nothing."""
    try:
        with open(file, "rb") as stream:
            text = stream.read()
    except OSError:
        return Imports((), frozenset())
    here = os.path.dirname(file)
    if not file.endswith(".py"):
        named = (os.path.join(here, name) for name in _INCLUDE.findall(text.decode("latin-1")))
        return Imports(tuple(os.path.realpath(p) for p in named if os.path.isfile(p)), frozenset())
    files: dict[str, None] = {}
    libraries = set()
    folders = (here, *_folders(folder))
    for level, parts in _names(text):
        found = _modules(parts, (_above(here, level - 1),) if level else folders)
        files.update(dict.fromkeys(found))
        if not found and parts and not level:
            libraries.add(parts[0])
    return Imports(tuple(files), frozenset(libraries))


@cache
def _names(text: bytes) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The modules of every import statement: dots in front, and parts. `from a import b` may mean
    the module `a.b`."""
    try:
        statements = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # which running it reports
    found: dict[tuple[int, tuple[str, ...]], None] = {}
    for one in statements:
        if isinstance(one, ast.Import):
            found.update(((0, tuple(alias.name.split("."))), None) for alias in one.names)
        elif isinstance(one, ast.ImportFrom):
            base = tuple((one.module or "").split(".")) if one.module else ()
            found.update(((one.level, (*base, alias.name)), None) for alias in one.names)
    return tuple(found)


def _modules(parts: Sequence[str], folders: Iterable[str]) -> list[str]:
    """The files that importing a module of the project runs: its own, and the packages around it.
    The last part may be a name in the module before."""
    if not parts or (parts[0] in sys.stdlib_module_names):
        return []
    for folder in folders:
        if found := list(_along(folder, parts)):
            return found
    root = _installed_root(parts[0])
    return list(_along(root, parts)) if root else []


def _along(folder: str, parts: Sequence[str]) -> Iterator[str]:
    place = folder
    for part in parts:
        place = os.path.join(place, part)
        for path in (os.path.join(place, "__init__.py"), f"{place}.py"):
            if os.path.isfile(path):
                yield os.path.realpath(path)
                break
        if not os.path.isdir(place):
            return


@cache
def _installed_root(name: str) -> str:
    """The folder of a project that is installed where it is written (`pip install -e`)."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # of a finder that somebody registered
        return ""
    origin = found.origin if found else None
    if origin is None or not os.path.isfile(origin) or _is_library(origin):
        return ""
    place = os.path.dirname(os.path.realpath(origin))
    return os.path.dirname(place) if os.path.basename(origin) == "__init__.py" else place


@cache
def _is_library(path: str) -> bool:
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    inside = any(os.path.realpath(path).startswith(os.path.realpath(p) + os.sep) for p in standard)
    return inside or any(name in path.split(os.sep) for name in _INSTALLED)


def _folders(folder: str) -> list[str]:
    """Where modules of the project are looked for: beside the spec, and on Python's path."""
    on_the_path = (os.path.abspath(path) for path in sys.path)
    mine = (path for path in on_the_path if os.path.isdir(path) and not _is_library(path + os.sep))
    return list(dict.fromkeys((os.path.abspath(folder or os.curdir), *mine)))


def _above(folder: str, levels: int) -> str:
    for _ in range(levels):
        folder = os.path.dirname(folder)
    return folder


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def input_names(target: str, folder: str = "") -> list[str]:
    """What the function, or the method of the class that is given the inputs, calls them; those
    with a default are left out. `affine` may be `affine_forward`. Empty where the code is not here
    or says none."""
    found = _defined(target, folder) or _defined(f"{target}_forward", folder)
    if isinstance(found, ast.ClassDef):
        methods = (_member(found, name) for name in _CALLED)
        found = next((method for method in methods if method is not None), None)
    return list(_required(found.args)) if isinstance(found, _Function) else []


def without_backward(target: str, folder: str = "") -> str:
    """What the code of a layer in NumPy calls the backward that is nowhere in it; empty where there
    is one, or the code is not here."""
    found, file = _defined(target, folder), file_of(target, folder)
    if isinstance(found, ast.ClassDef) and not found.bases:
        name, text = "backward", ast.unparse(found)
    elif isinstance(found, _Function) and file is not None:
        name = f"{found.name.removesuffix('_forward')}_backward"
        text = Path(file).read_text("utf-8", "replace")
    else:
        return ""
    return "" if name in text else name


def constructor_names(target: str, folder: str = "") -> list[str]:
    """What a class here calls the arguments without which it cannot be made."""
    made = _member(_defined(target, folder), "__init__")
    return list(_required(made.args)) if isinstance(made, _Function) else []


def _defined(target: str, folder: str) -> ast.AST | None:
    """The function or class; None where the code is not here, or does not define it by name."""
    file = file_of(target, folder)
    if file is None or not file.endswith(".py"):
        return None
    try:
        with open(file, "rb") as stream:
            found: ast.AST | None = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        return None
    for part in target.partition(":")[2].split("."):
        found = _member(found, part)
    return found


def _member(owner: ast.AST | None, name: str) -> ast.AST | None:
    body: Iterable[ast.AST] = getattr(owner, "body", ())
    kinds = (ast.ClassDef, *_Function.__args__)
    return next((one for one in body if isinstance(one, kinds) and one.name == name), None)


def _required(arguments: ast.arguments) -> Iterable[str]:
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    required = named[: len(named) - len(arguments.defaults)]
    return (name for name in required if name not in _NOT_INPUTS)

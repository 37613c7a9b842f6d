"""The code that a layer reaches: files of the project, found by import statements. No code is run.

Python's own modules and installed packages are libraries. Their versions stand for their code.
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
from typing import NamedTuple, TypeAlias

_INSTALLED = ("site-packages", "dist-packages")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_CALLED = ("forward", "call", "__call__", "apply")
"""Methods of a class that are given the inputs, the surest first."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_INPUTS = frozenset(("self", "cls", "ctx", "training"))


_Module: TypeAlias = tuple[int, tuple[str, ...]]
"""Dots in front of the name of a module, and its parts."""


class Imports(NamedTuple):
    """What a file imports: files of the project, and libraries by the first part of their names."""

    files: tuple[str, ...]
    libraries: frozenset[str]


def file_of(target: str, folder: str) -> str | None:
    """The file that defines a target; None if it belongs to a library, or does not exist."""
    found = _files_of(target, folder)
    return found[-1] if found else None


def _files_of(target: str, folder: str, root: str = "") -> list[str]:
    """The files of the packages that contain a target, followed by its own file. `root` is another
    folder of modules, unless it is empty."""
    place = target.partition(":")[0]
    path = os.path.join(folder, os.path.expanduser(place))
    if os.path.isfile(path):
        return [os.path.realpath(path)]
    return _modules(place.split("."), (*filter(None, [root]), *_folders(folder)))


def imported_files(targets: Iterable[str], folder: str) -> list[str]:
    """The files of the project that hold a layer and its other imports ("path.py:name",
    "package.module:name"), and all files that these import, sorted by name. Paths are relative to
    `folder`. While the layer runs, the folder of its own file, the first of the targets, is on the
    path, too."""
    layer, *others = targets
    root = _root(layer, folder)
    waiting = [file for one in (layer, *others) for file in _files_of(one, folder, root)]
    met = set(waiting)
    while waiting:
        new = [file for file in imports(waiting.pop(), folder, root).files if file not in met]
        met.update(new)
        waiting += new
    return sorted(met)


def _root(target: str, folder: str) -> str:
    """The folder of the file that a target names; empty for a module."""
    path = os.path.join(folder, os.path.expanduser(target.partition(":")[0]))
    return os.path.dirname(os.path.realpath(path)) if os.path.isfile(path) else ""


def imports(file: str, folder: str, root: str = "") -> Imports:
    """What a file imports or includes; nothing if it cannot be read. Modules are searched in
    `root`, unless it is empty, in `folder` and on Python's path, and beside the file."""
    try:
        with open(file, "rb") as stream:
            text = stream.read()
    except OSError:
        return Imports((), frozenset())
    here = os.path.dirname(file)
    if not file.endswith(".py"):
        named = (os.path.join(here, name) for name in _INCLUDE.findall(text.decode("latin-1")))
        return Imports(tuple(os.path.realpath(p) for p in named if os.path.isfile(p)), frozenset())
    return _imported(_names(text), here, folder, root)


def _imported(names: Iterable[_Module], here: str, folder: str, root: str = "") -> Imports:
    """The files and libraries of modules, as a file in the folder `here` names them."""
    files: dict[str, None] = {}
    libraries = set()
    folders = (root or here, *_folders(folder), here)
    for level, parts in names:
        modules = _modules(parts, (_parent_folder(here, level - 1),) if level else folders)
        files.update(dict.fromkeys(modules))
        if not modules and parts and not level:
            libraries.add(parts[0])
    return Imports(tuple(files), frozenset(libraries))


def named_by(target: str, folder: str) -> Imports:
    """The imports of a file that the definition of a target uses, directly or through other
    definitions in the file. Empty if the code is not available, or does not define the target by
    name."""
    tree, name = _tree_of(target, folder), target.partition(":")[2].partition(".")[0]
    here = os.path.dirname(file_of(target, folder) or "")
    parts = {name: one for one in getattr(tree, "body", ()) for name in _bound_by(one)}
    roots = [one for one in (name, f"{name}_forward") if isinstance(parts.get(one), _DEFINITIONS)]
    waiting, met = roots[:1], set(roots[:1])
    statements = []
    while waiting:
        for one in ast.walk(parts[waiting.pop()]):
            if isinstance(one, ast.Import | ast.ImportFrom):
                statements.append(one)
            used = one.id if isinstance(one, ast.Name) else ""
            if used in parts and used not in met:
                met.add(used)
                waiting.append(used)
    return _imported(_modules_of(statements), here, folder)


def _bound_by(statement: ast.AST) -> Iterator[str]:
    """The names that a statement at the top of a file defines."""
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((one.asname or one.name).partition(".")[0] for one in statement.names)
    else:
        for one in ast.walk(statement):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


@cache
def _names(text: bytes) -> tuple[_Module, ...]:
    """The modules of every import statement."""
    try:
        return _modules_of(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # which running it reports


def _modules_of(statements: Iterable[ast.AST]) -> tuple[_Module, ...]:
    """The modules that import statements name. `from a import b` may mean the module `a.b`."""
    modules: dict[_Module, None] = {}
    for one in statements:
        if isinstance(one, ast.Import):
            modules.update(((0, tuple(alias.name.split("."))), None) for alias in one.names)
        elif isinstance(one, ast.ImportFrom):
            base = tuple((one.module or "").split(".")) if one.module else ()
            modules.update(((one.level, (*base, alias.name)), None) for alias in one.names)
    return tuple(modules)


def _modules(parts: Sequence[str], folders: Iterable[str]) -> list[str]:
    """The files that run when a module of the project is imported: its own, and those of its
    packages. The last part may be a name inside of the module."""
    if not parts or (parts[0] in sys.stdlib_module_names):
        return []
    for folder in folders:
        if found := list(_module_files(folder, parts)):
            return found
    root = _installed_root(parts[0])
    return list(_module_files(root, parts)) if root else []


def _module_files(folder: str, parts: Sequence[str]) -> Iterator[str]:
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
    """The folder of a project that is installed in place (`pip install -e`)."""
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
    """The folders that are searched for modules of the project: the folder of the spec, and
    Python's path."""
    on_the_path = (os.path.abspath(path) for path in sys.path)
    mine = (path for path in on_the_path if os.path.isdir(path) and not _is_library(path + os.sep))
    return list(dict.fromkeys((os.path.abspath(folder or os.curdir), *mine)))


def _parent_folder(folder: str, levels: int) -> str:
    for _ in range(levels):
        folder = os.path.dirname(folder)
    return folder


def input_names(target: str, folder: str = "") -> list[str]:
    """The names of the parameters of the function, or of the method that takes the inputs.
    Parameters with a default are left out. `affine` may be `affine_forward`. Empty if the code is
    not available."""
    definition = _definition_of(target, folder) or _definition_of(f"{target}_forward", folder)
    if isinstance(definition, ast.ClassDef):
        methods = (_member(definition, name) for name in _CALLED)
        definition = next((method for method in methods if method is not None), None)
    return list(_required_names(definition.args)) if isinstance(definition, _Function) else []


def without_backward(target: str, folder: str = "") -> str:
    """The name of the backward that a NumPy layer lacks; empty if it has one, or its code is not
    available."""
    definition, file = _definition_of(target, folder), file_of(target, folder)
    if isinstance(definition, ast.ClassDef) and not definition.bases:
        name, text = "backward", ast.unparse(definition)
    elif isinstance(definition, _Function) and file is not None:
        name = f"{definition.name.removesuffix('_forward')}_backward"
        text = Path(file).read_text("utf-8", "replace")
    else:
        return ""
    return "" if name in text else name


def constructor_names(target: str, folder: str = "") -> list[str]:
    """The names of the required arguments of the constructor of a class in the project."""
    made = _member(_definition_of(target, folder), "__init__")
    return list(_required_names(made.args)) if isinstance(made, _Function) else []


def _definition_of(target: str, folder: str) -> ast.AST | None:
    """The function or class; None if the code is not available, or does not define it by name."""
    node = _tree_of(target, folder)
    for part in target.partition(":")[2].split("."):
        node = _member(node, part)
    return node


def _tree_of(target: str, folder: str) -> ast.AST | None:
    """The syntax tree of the file of a target; None if the file is not available."""
    file = file_of(target, folder)
    if file is None or not file.endswith(".py"):
        return None
    try:
        with open(file, "rb") as stream:
            return ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        return None


def _member(owner: ast.AST | None, name: str) -> ast.AST | None:
    body: Iterable[ast.AST] = getattr(owner, "body", ())
    found = (one for one in body if isinstance(one, _DEFINITIONS) and one.name == name)
    return next(found, None)


def _required_names(arguments: ast.arguments) -> Iterable[str]:
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    required = named[: len(named) - len(arguments.defaults)]
    return (name for name in required if name not in _NOT_INPUTS)

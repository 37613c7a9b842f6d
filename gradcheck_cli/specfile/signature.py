"""The inputs of a layer by name, read from its code; nothing is run for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gradcheck_cli.specfile.reached import file_of

_CALLED = ("forward", "call", "__call__", "apply")
"""Methods of a class that are given the inputs, the surest first."""
_NOT_INPUTS = frozenset(("self", "cls", "ctx", "training"))

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def input_names(target: str, folder: str = "") -> list[str]:
    """What the function, or the method of the class that is given the inputs, calls them; those
    with a default are left out. Empty where the code is not here or says none."""
    file = file_of(target, folder)
    if file is None or not file.endswith(".py"):
        return []
    try:
        with open(file, "rb") as stream:
            tree: ast.AST = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        return []
    found: ast.AST | None = tree
    for part in target.partition(":")[2].split("."):
        found = _member(found, part)
    if isinstance(found, ast.ClassDef):
        methods = (_member(found, name) for name in _CALLED)
        found = next((method for method in methods if method is not None), None)
    return list(_required(found.args)) if isinstance(found, _Function) else []


def _member(owner: ast.AST | None, name: str) -> ast.AST | None:
    body: Iterable[ast.AST] = getattr(owner, "body", ())
    kinds = (ast.ClassDef, *_Function.__args__)
    return next((one for one in body if isinstance(one, kinds) and one.name == name), None)


def _required(arguments: ast.arguments) -> Iterable[str]:
    named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    required = named[: len(named) - len(arguments.defaults)]
    return (name for name in required if name not in _NOT_INPUTS)

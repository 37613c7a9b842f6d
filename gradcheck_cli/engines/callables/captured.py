"""What a function uses without being given it: closure, globals, defaults, attributes of `self`."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any


def captured_by(function: Any) -> dict[str, Any]:
    """Objects that `function` reaches by a name of its own, by that name; those of functions that
    it calls by name included. Modules, classes and plain numbers are left out by whoever asks."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    pending: list[Any] = [function]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in _reached(one):
            if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
                pending.append(value)
            elif name not in found:
                found[name] = value
    return found


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(function, functools.partial):
        yield "func", function.func
        for index, value in enumerate(function.args):
            yield f"args[{index}]", value
        yield from function.keywords.items()
        return
    if isinstance(function, types.MethodType):
        yield from _attributes(function.__self__)
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        yield from _attributes(function)
        call = vars(type(function)).get("__call__")
        if not isinstance(call, types.FunctionType):
            return
        function = call
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    for name in _global_names(code):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    defaults = function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    yield from zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(owner, type | types.ModuleType):
        yield from getattr(owner, "__dict__", {}).items()


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that the code, or a function inside it, looks up: globals, and attributes with them."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)

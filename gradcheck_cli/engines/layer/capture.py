"""The objects that a function uses without receiving them: closure, globals, defaults, attributes
of `self`."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.binding import required_of

Put = Callable[[Any], None]
"""Puts another object in the place where one was found."""

LIBRARIES = frozenset(
    ("torch", "tensorflow", "keras", "tf_keras", "numpy", "scipy", "jax", "functools")
)
"""Packages whose functions keep nothing of the user's."""


@dataclass(slots=True)
class Capture:
    """An object that a function reaches by a name. It may be reached in several ways: `put`
    replaces it in all places that can be changed."""

    name: str
    value: Any
    puts: list[Put] = field(default_factory=list)

    def put(self, other: Any) -> None:
        for put in self.puts:
            put(other)


def captures(function: Any) -> tuple[Capture, ...]:
    """The objects that `function` reaches, including those that called functions and objects of the
    user's classes reach. Each object appears once. Two objects never share a name, and no object
    has the name of a required argument of `function`. The caller ignores modules, classes and plain
    numbers."""
    by_id: dict[int, Capture] = {}
    # A default is captured under the name of its argument.
    names = required_of(function)
    seen: set[int] = set()
    pending: list[tuple[str, Any]] = [("", function)]
    while pending:
        owner, holder = pending.pop()
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for name, value, put in _names_in(holder):
            if _leads_on(value):
                pending.append((name, value))
                continue
            if id(value) not in by_id:
                unique = name if name not in names else f"{owner or 'self'}.{name}"
                while unique in names:
                    unique += "_"
                names.add(unique)
                by_id[id(value)] = Capture(unique, value)
            if put is not None:
                by_id[id(value)].puts.append(put)
    return tuple(by_id.values())


def _leads_on(value: Any) -> bool:
    """Whether the value is the user's code, whose own captures count, rather than data."""
    if isinstance(value, types.FunctionType):
        return _wraps(value) or not of_a_library(value.__globals__.get("__name__"))
    if isinstance(value, types.MethodType | functools.partial):
        return True
    if isinstance(value, type | types.ModuleType) or not callable(value):
        return False
    return _wraps(value) or is_plain(value)


def _wraps(value: Any) -> bool:
    return hasattr(value, "__wrapped__")


def is_plain(value: Any) -> bool:
    """Whether all classes of the object are the user's own."""
    return not any(of_a_library(c.__module__) for c in type(value).__mro__[:-1])


def of_a_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def _names_in(function: Any) -> Iterator[tuple[str, Any, Put | None]]:
    """Every name with its object and, if possible, a function that replaces the object."""
    if _wraps(function):  # what a decorator made
        yield "wrapped", function.__wrapped__, None
        if not isinstance(function, types.FunctionType) or of_a_library(
            function.__globals__.get("__name__")
        ):
            return
    if isinstance(function, functools.partial):
        yield "func", function.func, None
        for index, value in enumerate(function.args):
            yield f"args[{index}]", value, None
        for name, value in function.keywords.items():
            yield name, value, functools.partial(function.keywords.__setitem__, name)
        return
    if isinstance(function, types.MethodType):
        owner = function.__self__
        if is_plain(owner):
            yield from _attributes(owner)
        else:
            yield "self", owner, None
        function = function.__func__
        if not _leads_on(function):
            return
    if not isinstance(function, types.FunctionType):
        yield from _attributes(function)
        call = vars(type(function)).get("__call__")
        if not isinstance(call, types.FunctionType):
            return
        function = call
    yield from _of_code(function)


def _of_code(function: types.FunctionType) -> Iterator[tuple[str, Any, Put | None]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents, functools.partial(setattr, cell, "cell_contents")
        except ValueError:  # a name that has no value yet
            continue
    for name in global_names(code):
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value, functools.partial(function.__globals__.__setitem__, name)
    defaults = function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    for name, value in zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True):
        yield name, value, functools.partial(_put_default, function, name)
    for name, value in (function.__kwdefaults__ or {}).items():
        assert function.__kwdefaults__ is not None
        yield name, value, functools.partial(function.__kwdefaults__.__setitem__, name)


def _put_default(function: types.FunctionType, name: str, value: Any) -> None:
    defaults = function.__defaults__ or ()
    code = function.__code__
    place = code.co_varnames.index(name) - (code.co_argcount - len(defaults))
    function.__defaults__ = (*defaults[:place], value, *defaults[place + 1 :])


def _attributes(owner: Any) -> Iterator[tuple[str, Any, Put | None]]:
    if not isinstance(owner, type | types.ModuleType):
        held = getattr(owner, "__dict__", {})
        for name, value in list(held.items()):
            yield name, value, functools.partial(held.__setitem__, name)  # frozen ones, too


@functools.cache
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The globals that the code, or a function inside it, reads."""
    return tuple(dict.fromkeys(_global_names(code)))


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):  # co_names has attributes, too
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from global_names(constant)

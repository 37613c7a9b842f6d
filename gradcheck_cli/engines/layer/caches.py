"""Dictionaries, lists and names in which a function of the user's keeps arrays between its
calls."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from gradcheck_cli.engines.layer.capture import captures, is_plain


@contextmanager
def emptied(function: Any) -> Iterator[Callable[[], str] | None]:
    """Meanwhile what `function` captured has no arrays in it. Gives a function that names the first
    dictionary or list into which calls have put arrays again ("": none): what calls do not make
    anew is no cache. None where there are no such arrays."""
    held = [
        (name, container, container.copy())
        for name, container in (_reached(function) if is_plain(function) else ())
        if isinstance(container, dict | list) and any(map(_is_array, _values(container)))
    ]

    def refilled() -> str:
        return next((n for n, now, before in held if _is_as_full(now, before)), "")

    for _, now, _ in held:
        _put(now, _without_arrays(now))
    try:
        yield refilled if held else None
    finally:
        for _, now, before in held:
            _put(now, before)


@contextmanager
def unset(function: Any) -> Iterator[list[str]]:
    """Meanwhile each name to which the code of `function` assigns is None, if it has an array: an
    attribute of a plain object, a global, a name of the function around. Gives these names, and
    nothing where what it assigned before cannot be found."""
    assigned = _assigned(function)
    held = [
        capture
        for capture in (captures(function) if assigned else ())
        if capture.puts and _is_array(capture.value) and capture.name in assigned
    ]
    for capture in held:
        capture.put(None)
    try:
        yield [capture.name for capture in held]
    finally:
        for capture in held:
            capture.put(capture.value)


def _assigned(function: Any) -> set[str]:
    """The names that outlive a call and are assigned by the function, or by a method of its object
    that does not make it."""
    owner = getattr(function, "__self__", function)
    parts = [function] if isinstance(function, types.FunctionType) else []
    for cls in type(owner).__mro__ if is_plain(owner) else ():
        parts += [part for name, part in vars(cls).items() if name != "__init__"]
    codes = (part.__code__ for part in parts if isinstance(part, types.FunctionType))
    return {name for code in codes for name in _stores(code)}


@cache
def _stores(code: types.CodeType) -> frozenset[str]:
    stores = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
    own = {one.argval for one in dis.get_instructions(code) if one.opname in stores}
    inner = (_stores(one) for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(own.difference(code.co_cellvars).union(*inner))


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    """What it captured, and what the class of its object has for all of them."""
    for capture in captures(function):
        yield capture.name, capture.value
    owner = getattr(function, "__self__", function)
    for cls in type(owner).__mro__ if is_plain(owner) else ():
        for name, value in vars(cls).items():
            yield f"{cls.__name__}.{name}", value


def _without_arrays(container: Any) -> Any:
    if isinstance(container, dict):
        return {key: value for key, value in container.items() if not _is_array(value)}
    return [value for value in container if not _is_array(value)]


def _put(container: Any, content: Any) -> None:
    container.clear()
    (container.update if isinstance(container, dict) else container.extend)(content)


def _values(container: Any) -> Collection[Any]:
    return container.values() if isinstance(container, dict) else container


def _is_as_full(now: Any, before: Any) -> bool:
    """Whether it has an array again where it had one."""
    if isinstance(before, dict):
        kept = [(now.get(key), value) for key, value in before.items()]
    else:
        kept = list(zip(now, before, strict=False))
    return any(_is_array(new) and _is_array(old) for new, old in kept)


def _is_array(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_is_array, value))
    return hasattr(value, "dtype") and hasattr(value, "shape")

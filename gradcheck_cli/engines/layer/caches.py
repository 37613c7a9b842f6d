"""Dictionaries and lists in which a function of the user's keeps arrays between its calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
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

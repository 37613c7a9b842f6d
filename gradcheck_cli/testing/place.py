"""Where in the user's files a layer is defined, so that findings can point at it."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from gradcheck_cli.domain.place import Source, Span

_NOWHERE = Span(1, 1, 1, 1)


def place_of(layer: Any) -> tuple[Source, Span]:
    """The file that defines the layer and the line of its definition; without text where that is
    not known, as for functions that were typed in."""
    for candidate in _candidates(layer):
        found = _found(candidate)
        if found is not None:
            path, text, span = found
            return Source(_shown(path), text), span
    return Source(name_of(layer), ""), _NOWHERE


def _found(candidate: Any) -> tuple[str, str, Span] | None:
    """The path and text of the file that defines it, and where; looked up once: a definition stays
    where it is, and a class is looked for in its whole file."""
    try:
        if candidate not in _KNOWN:
            _KNOWN[candidate] = _looked_up(candidate)
        return _KNOWN[candidate]
    except TypeError:  # it has no hash, or no weak references
        return _looked_up(candidate)


_KNOWN: WeakKeyDictionary[Any, tuple[str, str, Span] | None] = WeakKeyDictionary()


def _looked_up(candidate: Any) -> tuple[str, str, Span] | None:
    try:
        lines, first = inspect.getsourcelines(candidate)
        path = inspect.getsourcefile(candidate)
        text = Path(path).read_text("utf-8") if path else ""
    except (OSError, TypeError, UnicodeDecodeError):
        return None
    if not path or not lines:
        return None
    skipped = _decorators(lines)
    line = lines[skipped].rstrip()
    start = len(line) - len(line.lstrip())
    number = first + skipped
    return path, text, Span(number, start + 1, number, len(line) + 1)


def _candidates(layer: Any) -> list[Any]:
    """What may be defined where the layer is. Not the class of a class, of a function or of what
    wraps one, and no `forward` that comes from a library: these lie elsewhere, whatever the layer
    is."""
    owner = getattr(layer, "__self__", None)
    if inspect.isclass(owner) and layer.__module__ != owner.__module__:  # the `apply` of a Function
        return [owner]
    inner = getattr(layer, "func", None) or getattr(layer, "__func__", None)
    found = [layer, inner]
    own = layer if inspect.isclass(layer) else type(layer)
    forward = getattr(layer, "forward", None)
    held = "forward" in getattr(layer, "__dict__", {})
    if held or getattr(forward, "__module__", None) == own.__module__:
        found.append(forward)
    elsewhere = isinstance(layer, type | FunctionType) or hasattr(layer, "__wrapped__")
    return found if elsewhere else [*found, own]


def _decorators(lines: list[str]) -> int:
    """How many lines stand before the definition itself."""
    for index, line in enumerate(lines):
        if line.lstrip().startswith(("def ", "class ", "async def ")):
            return index
    return 0


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def name_of(layer: Any) -> str:
    """What reports call the layer."""
    name = getattr(layer, "__name__", None)
    if not isinstance(name, str):
        inner = getattr(layer, "func", None)
        name = getattr(inner, "__name__", None) or type(layer).__name__
    return "lambda" if name == "<lambda>" else str(name)

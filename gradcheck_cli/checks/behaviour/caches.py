"""Find where a user's function may keep numbers between calls: dictionaries, lists, names,
attributes and `functools` caches."""

from __future__ import annotations

import dis
import functools
import types
from collections import deque
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Literal

from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.capture import global_names, is_plain, of_a_library

State = Literal["empty", "not set", "deleted"]
REACHED = 2000  # the most objects to visit; the user's code comes first


@dataclass(frozen=True, slots=True)
class Place:
    """A container or name that holds numbers and can be cleared; `state` describes it then. `clear`
    returns a function that restores the old content. `filled` says whether a call has put numbers
    there again: a place that calls do not refill is no cache."""

    name: str
    state: State
    clear: Callable[[], Callable[[], None]]
    filled: Callable[[], bool]


def places_of(function: Any) -> Iterator[list[Place]]:
    """The places that `function` reaches, by kind: containers to empty; names that its code
    assigns, to set to None; and assigned attributes, to delete."""
    reached = _Reached()
    if is_plain(function):
        reached.walk(function)
    named = [one for one in reached.names if one.name in reached.stored and _is_number(one.get())]
    yield reached.containers
    yield [one.unset() for one in named]
    yield [one.deleted() for one in named if one.delete is not None]


@contextmanager
def cleared(places: Sequence[Place]) -> Iterator[None]:
    """Clear these places, and restore them at the end."""
    back = [place.clear() for place in places]
    try:
        yield
    finally:
        for put in back:
            put()


@dataclass(frozen=True, slots=True)
class _Name:
    """A name or an attribute. `delete` is None if it cannot be deleted."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None]
    delete: Callable[[], None] | None = None

    def unset(self) -> Place:
        return Place(self.name, "not set", self._clear(partial(self.put, None)), self._filled)

    def deleted(self) -> Place:
        assert self.delete is not None
        return Place(self.name, "deleted", self._clear(self.delete), self._filled)

    def _clear(self, without: Callable[[], None]) -> Callable[[], Callable[[], None]]:
        def clear() -> Callable[[], None]:
            before = self.get()
            without()
            return partial(self.put, before)

        return clear

    def _filled(self) -> bool:
        return _is_number(self.get())


class _Reached:
    """The containers with numbers and the names that the code of a function reaches, and the names
    that it assigns."""

    def __init__(self) -> None:
        self.containers: list[Place] = []
        self.names: list[_Name] = []
        self.stored: set[str] = set()
        self._seen: dict[int, Any] = {}  # keeps objects alive, so that ids stay unique
        self._fresh: dict[int, Any] = {}  # by id, copies of functions with empty caches
        self._pending: deque[tuple[str, Any]] = deque()

    def walk(self, function: Any) -> None:
        self._pending.append(("", function))
        while self._pending and len(self._seen) < REACHED:
            name, one = self._pending.popleft()
            if id(one) not in self._seen and not _is_one(one):
                self._seen[id(one)] = one
                self._look(name, one)

    def _look(self, name: str, one: Any) -> None:
        if isinstance(one, types.FunctionType):
            self._of_code(one)
        elif isinstance(one, types.MethodType):
            self._later(("", one.__self__), ("", one.__func__))
        elif isinstance(one, staticmethod | classmethod):
            self._later(("", one.__func__))
        elif isinstance(one, property):
            self._later(("", one.fget))
        elif isinstance(one, functools.partial):
            self._later(
                ("", one.func), *((name, value) for value in one.args), *one.keywords.items()
            )
        elif isinstance(one, functools._lru_cache_wrapper):
            self._later(("", one.__wrapped__))
        elif isinstance(one, dict | MutableSequence):
            self._container(name, one)
        elif isinstance(one, type):
            if not of_a_library(one.__module__):
                self._attributes(one, f"{one.__name__}.")
        elif not isinstance(one, types.ModuleType) and hasattr(one, "__dict__"):
            self._later(("", type(one)))
            if is_plain(one):
                self._attributes(one, "")

    def _later(self, *pairs: tuple[str, Any]) -> None:
        self._pending.extend(pairs)

    def _of_code(self, function: types.FunctionType) -> None:
        if of_a_library(function.__globals__.get("__name__")):
            return
        if function.__name__ != "__init__":
            self.stored |= _stores(function.__code__)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            get = partial(getattr, cell, "cell_contents", None)
            self._visit_name(_Name(name, get, partial(setattr, cell, "cell_contents")))
        around = function.__globals__
        for name in global_names(function.__code__):
            if name in around:
                get = partial(around.get, name)
                self._visit_name(_Name(name, get, partial(around.__setitem__, name)))
        defaults = function.__defaults__ or ()
        arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
        self._later(*zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True))
        self._later(*(function.__kwdefaults__ or {}).items())
        self._attributes(function, f"{function.__name__}.")

    def _attributes(self, owner: Any, prefix: str) -> None:
        for name, value in list(vars(owner).items()):
            if name.startswith("__"):
                continue
            if _is_number(value):
                get = partial(vars(owner).get, name)
                put, delete = partial(setattr, owner, name), partial(delattr, owner, name)
                self.names.append(_Name(name, get, put, delete))
            self._replace_function_cache(value, partial(setattr, owner, name))
            self._later((f"{prefix}{name}", value))

    def _visit_name(self, one: _Name) -> None:
        value = one.get()
        if _is_number(value):
            self.names.append(one)
        self._replace_function_cache(value, one.put)
        self._later((one.name, value))

    def _container(self, name: str, one: Any) -> None:
        values = list(one.values() if isinstance(one, dict) else one)
        if any(map(_is_number, values)):
            before = one.copy()
            self.containers.append(
                Place(name, "empty", partial(_empty, one), partial(_is_as_full, one, before))
            )
        self._later(*((name, value) for value in values))

    def _replace_function_cache(self, one: Any, put: Callable[[Any], None]) -> None:
        """Add a name whose value is a `functools` cache. A cleared cache cannot be restored, so a
        function with an empty cache takes its place meanwhile."""
        if isinstance(one, staticmethod | classmethod):
            self._replace_function_cache(one.__func__, lambda new: put(type(one)(new)))
        if not isinstance(one, functools._lru_cache_wrapper) or not one.cache_info().currsize:
            return
        if id(one) not in self._fresh:
            self._fresh[id(one)] = functools.lru_cache(**one.cache_parameters())(one.__wrapped__)
        fresh = self._fresh[id(one)]

        def clear() -> Callable[[], None]:
            fresh.cache_clear()
            put(fresh)
            return partial(put, one)

        def filled() -> bool:
            return bool(fresh.cache_info().currsize)

        name = f"{one.__wrapped__.__name__}()"
        self.containers.append(Place(name, "empty", clear, filled))


@cache
def _stores(code: types.CodeType) -> frozenset[str]:
    """The names that the code, or a function inside it, assigns and that outlive a call."""
    stores = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
    own = {one.argval for one in dis.get_instructions(code) if one.opname in stores}
    inner = (_stores(one) for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(own.difference(code.co_cellvars).union(*inner))


def _empty(container: Any) -> Callable[[], None]:
    """Remove the numbers from the container. Return a function that restores them."""
    before = container.copy()
    if isinstance(container, dict):
        _fill(container, {key: one for key, one in before.items() if not _is_number(one)})
    else:
        _fill(container, [one for one in before if not _is_number(one)])
    return partial(_fill, container, before)


def _fill(container: Any, content: Any) -> None:
    container.clear()
    (container.update if isinstance(container, dict) else container.extend)(content)


def _is_as_full(now: Any, before: Any) -> bool:
    """Whether a number is again where a number was before."""
    if isinstance(before, dict):
        kept = [(now.get(key), value) for key, value in before.items()]
    else:
        kept = list(zip(now, before, strict=False))
    return any(_is_number(new) and _is_number(old) for new, old in kept)


def _is_number(value: Any) -> bool:
    """Whether the value is a number or an array, or a tuple or list with one."""
    return any(map(_is_number, value)) if isinstance(value, tuple | list) else _is_one(value)


def _is_one(value: Any) -> bool:
    """Whether the value is an array, or a float that may have been computed from one."""
    return isinstance(value, float) or (hasattr(value, "dtype") and hasattr(value, "shape"))

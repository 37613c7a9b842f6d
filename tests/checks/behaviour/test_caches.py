"""Where functions keep numbers between their calls."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.behaviour.caches import Place, cleared, places_of

_kept: Any = None


def all_of(function: Any) -> list[Place]:
    return [place for places in places_of(function) for place in places]


def test_numbers_are_gone_meanwhile_and_back_afterwards() -> None:
    cache: dict[str, Any] = {"n": 3, "a": np.ones(2), "pair": (np.ones(1), 2)}
    before = dict(cache)
    (place,) = all_of(lambda x: x * cache["n"])
    with cleared([place]):
        assert cache == {"n": 3}
        assert not place.filled()
        cache["b"] = np.ones(2)
        assert not place.filled(), "it was not there before"
        cache["a"] = np.zeros(2)
        assert place.filled()
    assert (place.name, place.state) == ("cache", "empty")
    assert cache.keys() == before.keys()
    assert all(cache[key] is value for key, value in before.items())


def test_what_keeps_no_numbers_is_left_alone() -> None:
    names = {"a": 1}
    for function in (lambda x: x * names["a"], None, np.sin, 3.0):
        assert all_of(function) == []


class Plain:
    shared: dict[str, Any] = {}  # noqa: RUF012
    own: Any = None

    def __init__(self) -> None:
        self.weight = np.ones(2)

    def fill(self, x: Any) -> Any:
        if not hasattr(self, "made"):
            self.made = x.copy()
        return self.made


def in_a_list() -> Callable[[Any], Any]:
    kept: list[Any] = []

    def layer(x: Any) -> Any:
        if not kept:
            kept.append(x.copy())
        return kept[0]

    return layer


def in_a_deque_of_an_object() -> Callable[[Any], Any]:
    one = types.SimpleNamespace(kept=deque(maxlen=2))

    def layer(x: Any) -> Any:
        if not one.kept:
            one.kept.append(float(x.sum()))
        return one.kept[0]

    return layer


def in_a_dictionary_of_a_dictionary() -> Callable[[Any], Any]:
    held: dict[str, Any] = {"cache": {}}
    return lambda x: held["cache"].setdefault(x.shape, x.copy())


def in_what_a_class_shares() -> Callable[[Any], Any]:
    Plain.shared.clear()
    return lambda x: Plain().shared.setdefault("scale", float(x.max()))


def in_an_attribute_of_a_class() -> Callable[[Any], Any]:
    Plain.own = None

    def layer(x: Any) -> Any:
        if Plain.own is None:
            Plain.own = x.copy()
        return Plain.own

    return layer


def in_an_attribute_that_is_missing_at_first() -> Callable[[Any], Any]:
    one = Plain()
    return lambda x: one.fill(x)


def in_a_method_of_an_object() -> Callable[[Any], Any]:
    return Plain().fill


def in_a_name_around() -> Callable[[Any], Any]:
    kept = None

    def layer(x: Any) -> Any:
        nonlocal kept
        if kept is None:
            kept = x.copy()
        return kept

    return layer


def in_a_global() -> Callable[[Any], Any]:
    global _kept
    _kept = None

    def layer(x: Any) -> Any:
        global _kept
        if _kept is None:
            _kept = x.copy()
        return _kept

    return layer


def in_an_attribute_of_itself() -> Callable[[Any], Any]:
    def layer(x: Any) -> Any:
        if not hasattr(layer, "kept"):
            layer.kept = x.copy()  # type: ignore[attr-defined]
        return layer.kept  # type: ignore[attr-defined]

    return layer


def in_a_default() -> Callable[[Any], Any]:
    def layer(x: Any, kept: dict[str, Any] = {}) -> Any:  # noqa: B006
        return kept.setdefault("x", x.copy())

    return layer


def in_what_functools_remembers() -> Callable[[Any], Any]:
    last: list[Any] = []

    @functools.lru_cache
    def made(shape: Any) -> Any:
        return last[0]

    def layer(x: Any) -> Any:
        last[:] = [x.copy()]
        return made(x.shape)

    return layer


def in_what_a_static_method_remembers() -> Callable[[Any], Any]:
    class Made:
        last: Any = None

        @staticmethod
        @functools.lru_cache(maxsize=4)
        def made(shape: Any) -> Any:
            return Made.last[0]

        def __call__(self, x: Any) -> Any:
            Made.last = (x.copy(), "")
            return self.made(x.shape)

    return Made()


EVERY = [
    in_a_list,
    in_a_deque_of_an_object,
    in_a_dictionary_of_a_dictionary,
    in_what_a_class_shares,
    in_an_attribute_of_a_class,
    in_an_attribute_that_is_missing_at_first,
    in_a_method_of_an_object,
    in_a_name_around,
    in_a_global,
    in_an_attribute_of_itself,
    in_a_default,
    in_what_functools_remembers,
    in_what_a_static_method_remembers,
]


@pytest.mark.parametrize("made", EVERY)
def test_a_cleared_place_is_filled_by_the_next_call(made: Callable[[], Callable[..., Any]]) -> None:
    """And only then is it found: what another call made is there again afterwards."""
    layer, one, other = made(), np.array([1.0, 2.0]), np.array([3.0, 4.0])
    first = layer(one)
    assert np.array_equal(layer(other), first), "it keeps the first"
    shown = 0
    for place in all_of(layer):
        with cleared([place]):
            try:
                shown += not np.array_equal(layer(other), first) and place.filled()
            except AttributeError:
                assert place.state == "deleted"  # it has to be None
        assert np.array_equal(layer(other), first), "it is back"
    assert shown


def test_what_functools_remembers_is_left_as_it_was() -> None:
    calls = []

    @functools.lru_cache(maxsize=8)
    def table(n: int) -> Any:
        calls.append(n)
        return np.arange(float(n))

    def layer(x: Any) -> Any:
        return x * table(x.size)

    layer(np.ones(3))
    before, wrapper = table.cache_info(), table
    with cleared(all_of(layer)):
        layer(np.ones(3))
        layer(np.ones(2))
    assert calls == [3, 3, 2]
    assert (table, table.cache_info()) == (wrapper, before)


def test_the_argument_names_the_default_that_keeps_numbers() -> None:
    layer = in_a_default()
    layer(np.ones(2))
    assert [place.name for place in all_of(layer)] == ["kept"]


def test_a_weight_that_no_call_assigns_is_no_place() -> None:
    Plain.shared.clear()
    Plain.own = None
    assert all_of(Plain().fill) == []

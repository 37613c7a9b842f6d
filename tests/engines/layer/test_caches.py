"""Captured dictionaries and lists without the arrays that calls have put into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.layer.caches import emptied


def test_arrays_are_gone_meanwhile_and_back_afterwards() -> None:
    cache: dict[str, Any] = {"n": 3, "a": np.ones(2), "pair": (np.ones(1), 2)}

    def layer(x: Any) -> Any:
        return x * cache["n"]

    before = dict(cache)
    with emptied(layer) as refilled:
        assert refilled is not None
        assert cache == {"n": 3}
        assert refilled() == ""
        cache["b"] = np.ones(2)
        assert refilled() == "", "it was not there before"
        cache["a"] = np.zeros(2)
        assert refilled() == "cache"
    assert cache.keys() == before.keys()
    assert all(cache[key] is value for key, value in before.items())


def test_a_list_is_as_full_as_before() -> None:
    kept: list[Any] = [np.ones(2)]
    with emptied(lambda x: x * kept[0]) as refilled:
        assert refilled is not None
        assert kept == []
        kept.append(np.zeros(2))
        assert refilled() == "kept"
    assert kept[0].sum() == 2


def test_what_captures_no_arrays_is_left_alone() -> None:
    names = {"a": 1}
    for function in (lambda x: x * names["a"], None, np.sin):
        with emptied(function) as refilled:
            assert refilled is None


def test_what_all_objects_of_a_class_share_is_reached() -> None:
    class Layer:
        shared: dict[str, Any] = {}  # noqa: RUF012

        def forward(self, x: Any) -> Any:
            return x * self.shared.setdefault("scale", np.abs(x).max() * np.ones(1))

    layer = Layer()
    layer.forward(np.ones(2))
    with emptied(layer.forward) as refilled:
        assert refilled is not None
        assert layer.shared == {}
        layer.forward(np.ones(2))
        assert refilled() == "Layer.shared"

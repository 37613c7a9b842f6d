"""Arrays of an object of NumPy code, and the names under which it leaves their gradients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.numpy.state import arrays_of, get, gradient_of, put

W, G = np.array([1.0, 2.0]), np.array([3.0, 4.0])


def test_floating_arrays_are_found_in_attributes_and_dictionaries() -> None:
    owner = SimpleNamespace(W=W, steps=np.array([1, 2]), rate=0.1, params={"b": G, "name": "x"})
    assert arrays_of(owner) == {"W": ("W", None), "b": ("params", "b")}
    assert arrays_of(len) == {}


def test_two_arrays_of_one_name_are_told_apart() -> None:
    owner = SimpleNamespace(W=W, params={"W": G})
    assert arrays_of(owner) == {"W": ("W", None), "params.W": ("params", "W")}


@pytest.mark.parametrize("name", ["dW", "d_W", "grad_W", "W_grad"])
def test_a_gradient_is_no_parameter_and_is_found_by_its_name(name: str) -> None:
    owner = SimpleNamespace(W=W, **{name: G})
    assert list(arrays_of(owner)) == ["W"]
    assert gradient_of(owner, "W") is G


@pytest.mark.parametrize("held", [{"grads": {"W": G}}, {"gradients": {"dW": G}}])
def test_a_dictionary_of_gradients_has_them(held: dict[str, Any]) -> None:
    owner = SimpleNamespace(W=W, **held)
    assert list(arrays_of(owner)) == ["W"]
    assert gradient_of(owner, "W") is G


def test_where_the_object_left_nothing_there_is_none() -> None:
    assert gradient_of(SimpleNamespace(W=W, dW=None), "W") is None


def test_an_array_is_read_and_replaced_where_it_stands() -> None:
    owner = SimpleNamespace(W=W, params={"b": W})
    for place in arrays_of(owner).values():
        put(owner, place, G)
        assert get(owner, place) is G
    assert owner.W is owner.params["b"] is G

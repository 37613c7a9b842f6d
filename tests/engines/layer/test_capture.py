"""What functions use without being given it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradcheck_cli.engines.layer.capture import captures

SCALE = np.array([1.0, 2.0])
TABLE = np.array([3.0])


def scaled(x: Any) -> Any:
    return x * SCALE


def found_by(function: Any) -> dict[str, Any]:
    return {c.name: c.value for c in captures(function) if isinstance(c.value, np.ndarray)}


def with_closure() -> Callable[[Any], Any]:
    inner = np.array([5.0])

    def function(x: Any, default: Any = TABLE) -> Any:
        return scaled(x) + inner + default

    return function


def test_closures_globals_and_defaults_of_functions_that_are_called_are_found() -> None:
    found = found_by(with_closure())
    assert found["SCALE"] is SCALE
    assert found["inner"][0] == 5.0
    assert found["default"] is TABLE


def test_methods_of_a_library_keep_nothing_of_the_users() -> None:
    """What their code reads is the library's own."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

    assert [c.value for c in captures(Doubled.apply)] == [Doubled]
    linear = torch.nn.Linear(2, 1)
    assert [c.value for c in captures(linear.forward)] == [linear]


def test_an_attribute_that_is_called_as_an_argument_has_another_name() -> None:
    class Shifted:
        def __init__(self) -> None:
            self.x, self.y = np.array([1.0]), np.array([2.0])

        def __call__(self, x: Any) -> Any:
            return x + self.x + self.y

    assert set(found_by(Shifted())) == {"self.x", "y"}


def test_an_attribute_is_not_the_global_of_its_name() -> None:
    class Keeping:
        def __call__(self, x: Any) -> Any:
            self.SCALE = x
            return self.SCALE + x.TABLE

    assert found_by(Keeping()) == {}


def test_an_object_is_found_once_and_put_in_all_of_its_places() -> None:
    shared = np.array([1.0])

    def first(x: Any) -> Any:
        return x * shared

    def second(x: Any, also: Any = shared) -> Any:
        return first(x) + also

    (capture,) = [c for c in captures(second) if isinstance(c.value, np.ndarray)]
    capture.put(np.array([10.0]))
    assert second(np.array([2.0])) == [30.0]
    capture.put(capture.value)
    assert second(np.array([2.0])) == [3.0]


def test_two_objects_of_one_name_are_both_found() -> None:
    def make(value: float) -> Callable[[Any], Any]:
        weight = np.array([value])
        return lambda x: x * weight

    left, right = make(2.0), make(3.0)
    found = found_by(lambda x: left(x) + right(x))
    assert sorted(float(value[0]) for value in found.values()) == [2.0, 3.0]


def test_objects_methods_decorators_and_partials_lead_on() -> None:
    class Layer:
        def __init__(self) -> None:
            self.weight = np.array([7.0])

        def __call__(self, x: Any) -> Any:
            return scaled(x) * self.weight

        def half(self, x: Any) -> Any:
            return x * self.weight / 2

    def noisy(function: Any) -> Any:
        extra = np.array([9.0])

        @functools.wraps(function)
        def wrapper(x: Any) -> Any:
            return function(x) + extra

        return wrapper

    layer = Layer()
    assert set(found_by(layer)) == {"SCALE", "weight"}
    assert set(found_by(layer.half)) == {"weight"}
    assert set(found_by(noisy(layer))) == {"SCALE", "weight", "extra"}
    assert set(found_by(functools.partial(with_closure(), default=TABLE))) >= {"default", "inner"}


def test_what_libraries_keep_is_not_the_users() -> None:
    assert found_by(np.linalg.norm) == {}

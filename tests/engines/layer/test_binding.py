"""Inputs by name become the arguments of a call."""

import functools
import inspect
from typing import Any

import pytest

from gradcheck_cli.engines.layer import binding
from gradcheck_cli.engines.layer.binding import arrange, for_the_call, joined, parameters_of


def test_parts_of_one_argument_are_put_together() -> None:
    arrays = {"x": 1, "state[0]": 2, "state[1]['c']": 3, "options['h n']": 4}
    assert joined(arrays) == {"x": 1, "state": (2, {"c": 3}), "options": {"h n": 4}}


def test_a_tuple_goes_to_its_parameter() -> None:
    def layer(x, axis, state=None):
        return x

    call = arrange(layer, ["x", "state[0]", "state[1]"], [7], {})
    assert call({"x": 1, "state[0]": 2, "state[1]": 3}) == ([1, 7, (2, 3)], {})


def test_keyword_arguments_of_a_class_go_to_the_constructor_or_to_the_call() -> None:
    class Layer:
        def __init__(self, size, mode="a"):
            pass

        def forward(self, x, mask=None, mode="b", *, steps=1):
            pass

    mine, later = for_the_call(Layer, {"size": 3, "mode": "c", "mask": [[1, None]], "steps": 2}, "")
    assert mine == {"size": 3, "mode": "c"}, "a name that both have is the constructor's"
    assert later == {"mask": [[1, None]], "steps": 2}
    assert for_the_call(Layer, {"wrong": 1}, "")[0] == {"wrong": 1}, "which says so itself"


def scaled(x: Any, scale: float = 2.0) -> Any:
    return x * scale


def names(function: Any) -> list[str]:
    return [one.name for one in parameters_of(function) or ()]


def test_a_function_that_takes_any_name_gets_inputs_by_name() -> None:
    def layer(x: float, **more: float) -> tuple[float, dict[str, float]]:
        return x, more

    def with_places(x: float, *more: float, **others: float) -> tuple[float, ...]:
        return x, *more

    for function, result in ((layer, (1.0, {"w": 2.0})), (with_places, (1.0, 2.0))):
        args, kwargs = arrange(function, ["x", "w"], [], {})({"x": 1.0, "w": 2.0})
        assert function(*args, **kwargs) == result


def test_a_signature_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def watched(function: Any) -> inspect.Signature:
        read.append(function)
        return inspect.Signature([inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)])

    monkeypatch.setattr(binding.inspect, "signature", watched)
    fresh = lambda x: x  # noqa: E731  a function that nobody read
    assert names(fresh) == names(fresh) == ["x"]
    assert read == [fresh]


def test_another_default_is_seen() -> None:
    def mine(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    assert parameters_of(mine)[1].default == 2.0
    mine.__defaults__ = (3.0,)
    assert parameters_of(mine)[1].default == 3.0


def test_what_wraps_a_function_has_its_signature() -> None:
    @functools.wraps(scaled)
    def wrapped(*args: Any) -> Any:
        return scaled(*args)

    assert names(wrapped) == names(scaled) == ["x", "scale"]
    wrapped.__wrapped__ = lambda y: y
    assert names(wrapped) == ["y"]
    assert names(functools.partial(scaled, scale=1.0)) == ["x", "scale"]


def test_a_method_has_the_parameters_that_a_call_gives() -> None:
    class Layer:
        def forward(self, x: Any, *, scale: float = 2.0) -> Any:
            return x * scale

        @classmethod
        def apply(cls, *args: Any) -> Any:
            return args

        def all(*args: Any) -> Any:
            return args

        @functools.wraps(scaled)
        def wrapped(self, *args: Any) -> Any:
            return scaled(*args)

    for method in (Layer().forward, Layer.apply, Layer().all, Layer().wrapped, [].append):
        assert parameters_of(method) == list(inspect.signature(method).parameters.values())


def test_what_states_no_parameters_has_none() -> None:
    assert parameters_of(3) is None

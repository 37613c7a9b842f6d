"""The custom gradients that a TensorFlow layer calls, with the arguments of each call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.ops import custom_gradient

from gradcheck_cli.domain.dtypes import Array, as_numbers
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.engines.layer.binding import OWN
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.custom import MOST_CALLS, CustomCall, IsolatedCall, Passes, Path
from gradcheck_cli.engines.layer.source_lines import Places, calling
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.state import Found, HeldVariable

_CUTS = ("stop_gradient", "numpy_function", "numpy", "stop_recording")
DECORATOR = "_eager_mode_decorator"  # tensorflow/python/ops/custom_gradient.py


@dataclass(slots=True)
class _Call:
    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: Place | None
    gradient: Any = None
    variables: Sequence[Any] = ()


def custom_calls(passes: Passes, held: Mapping[str, HeldVariable]) -> list[CustomCall]:
    """The calls of users' functions under `tf.custom_gradient`, in order. The tape of `passes` must
    support several gradients. `held` are the variables of the layer by name."""
    calls: list[_Call] = []
    with _recording_calls(calls):
        passes.call()
    return [_described(call, passes, held) for call in calls]


@contextmanager
def _recording_calls(calls: list[_Call]) -> Iterator[None]:
    """Record every call inside the block, except calls of TensorFlow's and Keras's own
    functions."""
    before = getattr(custom_gradient, DECORATOR)
    places = Places(__name__)

    def watched(function: Any, args: Any, kwargs: Any) -> Any:
        if of_a_library(getattr(function, "__module__", None)) or len(calls) >= MOST_CALLS:
            return before(function, args, kwargs)
        call = _Call(function, tuple(args), dict(kwargs), places.running())
        calls.append(call)
        return before(_keeping(function, call), args, kwargs)

    with temporarily(custom_gradient, **{DECORATOR: watched}):
        yield


def _keeping(function: Any, call: _Call) -> Callable[..., Any]:
    """The function, which also stores the gradient function that it returns, and the variables that
    it uses."""

    @functools.wraps(function)
    def kept(*args: Any, **kwargs: Any) -> Any:
        with record.VariableWatcher() as watcher:
            result, call.gradient = function(*args, **kwargs)
        call.variables = watcher.watched_variables()
        return result, call.gradient

    return kept


def _described(call: _Call, passes: Passes, held: Mapping[str, HeldVariable]) -> CustomCall:
    places = [i for i, value in enumerate(call.args) if is_floating(value)]
    names = positional(call.function)
    names += [f"argument {i}" for i in range(len(names), len(call.args))]
    assert passes.reached is not None
    called = [names[i] for i in places]
    captured = [
        one.found if one.found.name not in called else replace(one.found, name=OWN + one.found.name)
        for variable in call.variables
        for one in held.values()
        if one.source is variable
    ]
    stated = functools.partial(tf.custom_gradient(call.function), **call.kwargs)
    return CustomCall(
        name=call.function.__name__,
        live=IsolatedCall(call.function.__name__, stated, call.args, places, captured),
        values={n: in_parts(call.args[i]) for n, i in zip(called, places, strict=True)},
        moving=(*called, *(one.name for one in captured)),
        reaches=passes.reached([*(call.args[i] for i in places), *call.variables]),
        through={n: passes.reached([call.args[i]]) for n, i in zip(called, places, strict=True)},
        positions=_positions(called, places, captured, bool(call.variables)),
        backward=call.gradient,
        place=call.place,
        stops={"reverse": calling(call.function, *_CUTS) or calling(call.gradient, *_CUTS)},
        complex_values=frozenset(
            n for n, i in zip(called, places, strict=True) if call.args[i].dtype.is_complex
        ),
    )


def _positions(
    called: Sequence[str], places: Sequence[int], captured: Sequence[Found], by_kind: bool
) -> dict[str, Path]:
    """Where a gradient function returns the gradients of arguments. If the function uses variables
    (`by_kind`), theirs are a second part."""
    before = (0,) if by_kind else ()
    found: dict[str, Path] = {n: (*before, i) for n, i in zip(called, places, strict=True)}
    return found | {one.name: (1, i) for i, one in enumerate(captured)}


def in_parts(tensor: Any) -> Array:
    """The numbers of a tensor, complex ones as pairs along a last axis."""
    return as_numbers(tensor.numpy())


def is_floating(value: Any) -> bool:
    """Whether the value is a tensor of floating or complex numbers."""
    if not isinstance(value, tf.Tensor | tf.Variable):
        return False
    return bool(value.dtype.is_floating or value.dtype.is_complex)


def positional(function: Any) -> list[str]:
    """The names of the positional parameters."""
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]

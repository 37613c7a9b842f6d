"""Where numbers of a TensorFlow layer leave its tape, and what the gradients would be otherwise.

Every `tf.stop_gradient` ends in one function. In a second run, the calls on one line return their
argument unchanged. Numbers also leave the tape when they are read as NumPy or Python numbers, and
when they are assigned to a variable. Reads through the buffer protocol, as by `np.asarray`, cannot
be watched, but what NumPy computes from them can: it becomes a tensor again.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.framework import constant_op, ops
from tensorflow.python.ops import custom_gradient, gen_array_ops, gen_resource_variable_ops

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.custom import MOST_CUTS, GradientBarrier
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.custom_functions import DECORATOR, is_floating

STOP = "tf.stop_gradient()"
RECOMPUTED = "tf.recompute_grad"
FROM_OUTSIDE = ""  # the name of a conversion of numbers that NumPy or Python has computed
_INNER = "recompute_grad.<locals>.inner"  # the function that has the custom gradient
_ASSIGNMENTS = ("assign", "assign_add", "assign_sub")

Meet: TypeAlias = "Callable[[str, Place, Any, Any], Any]"
"""Is told a call that takes floating numbers out of the graph, or brings some in: its name, its
line, the tensor that it takes or makes, and its result. Returns the result to use. The result of an
assignment is what is assigned."""


@contextmanager
def cuts(meet: Meet) -> Iterator[None]:
    """Inside the block, `meet` decides the results of the user's calls that take numbers out of the
    graph."""
    places = Places(__name__)
    stop, read = gen_array_ops.stop_gradient, ops._EagerTensorBase._numpy
    enter = constant_op.convert_to_eager_tensor

    def met(name: str, tensor: Any, result: Any) -> Any:
        place = places.running() if is_floating(tensor) else None
        return result if place is None else meet(name, place, tensor, result)

    def stopped(input: Any, name: Any = None) -> Any:
        return met(STOP, input, stop(input, name=name))

    def numbers(tensor: Any) -> Any:
        name = sys._getframe(1).f_code.co_name.strip("_")
        return met(f"{name}()", tensor, read(tensor))

    def entered(*args: Any, **kwargs: Any) -> Any:
        tensor = enter(*args, **kwargs)
        return met(FROM_OUTSIDE, tensor, tensor)

    def assignment(name: str) -> Callable[..., Any]:
        write, word = getattr(gen_resource_variable_ops, f"{name}_variable_op"), f"{name}()"
        return lambda handle, value, *args, **kwargs: write(
            handle, met(word, value, value), *args, **kwargs
        )

    with (
        temporarily(gen_array_ops, stop_gradient=stopped),
        temporarily(ops._EagerTensorBase, _numpy=numbers),
        temporarily(constant_op, convert_to_eager_tensor=entered),
        temporarily(
            gen_resource_variable_ops,
            **{f"{name}_variable_op": assignment(name) for name in _ASSIGNMENTS},
        ),
    ):
        yield


def uncut(run: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any], list[GradientBarrier]]:
    """The gradients as they are, and with each stop let through and each part of the forward run
    only once in turn; other cuts cannot be let through. `run` makes a forward and a backward pass,
    and returns the gradients by leaf."""
    seen: dict[tuple[str, Place], None] = {}

    def look(name: str, place: Place, tensor: Any, result: Any) -> Any:
        seen[name, place] = None
        return result

    def let_through(opened: Place, name: str, place: Place, tensor: Any, result: Any) -> Any:
        return _recorded(tensor) if name == STOP and place == opened else result

    again: dict[Place, bool] = {}
    with cuts(look), _recomputing(lambda place: again.setdefault(place, True)):
        plain = run()
    stops = [place for name, place in seen if name == STOP]
    barriers = []
    for place in stops[:MOST_CUTS]:
        with cuts(partial(let_through, place)):
            barriers.append(GradientBarrier(STOP, place, run()))
    for place in list(again)[:MOST_CUTS]:
        with _recomputing(place.__ne__):
            barriers.append(GradientBarrier(RECOMPUTED, place, run(), kind="recomputed forward"))
    others = (GradientBarrier(name, place, None) for name, place in seen if name != STOP)
    return plain, [*barriers, *others]


@contextmanager
def _recomputing(is_wanted: Callable[[Place], bool]) -> Iterator[None]:
    """Inside the block, a function under `tf.recompute_grad` runs again in the backward pass only
    if `is_wanted` says so about the user's line that calls it."""
    places = Places(__name__)
    decorated = getattr(custom_gradient, DECORATOR)

    def called(function: Any, args: Any, kwargs: Any) -> Any:
        if getattr(function, "__qualname__", "") == _INNER:
            place = places.running()
            if place is not None and not is_wanted(place):
                return inspect.getclosurevars(function).nonlocals["f"](*args, **kwargs)
        return decorated(function, args, kwargs)

    with temporarily(custom_gradient, **{DECORATOR: called}):
        yield


def _recorded(array: Any) -> Any:
    """The array, recorded on tapes that `tf.stop_gradient` has told to stop."""
    pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
    try:
        return tf.identity(array)
    finally:
        pywrap_tfe.TFE_Py_TapeSetStopOnThread()

"""What a spec declares as intended in a TensorFlow layer (`layer.declared`): calls that take
numbers out of the graph, and calls of functions under `tf.custom_gradient`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.ops import custom_gradient

from gradcheck_cli.domain.dtypes import Array, are_equal
from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.declared import Declared, Given, Pull, joined_results, separate
from gradcheck_cli.engines.layer.source_lines import Places, lines, running
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.custom_functions import (
    DECORATOR,
    in_parts,
    is_floating,
    positional,
)
from gradcheck_cli.engines.tensorflow.detached import FROM_OUTSIDE, STOP, cuts


@contextmanager
def holding(declared: Declared) -> Iterator[None]:
    """Make declared calls behave as `declared` says inside the block."""
    stated_before = getattr(custom_gradient, DECORATOR)
    places = Places(__name__)

    def cut(name: str, place: Place, tensor: Any, result: Any) -> Any:
        if name == FROM_OUTSIDE and not declared.is_every_cut:
            return result
        which = declared.line(lines(running()))
        if which is None:
            return result
        return declared.detach(which, result, _copy, are_equal, place.line, name == STOP)

    def stated(function: Any, args: Any, kwargs: Any) -> Any:
        theirs = not of_a_library(getattr(function, "__module__", None))
        which = declared.function(function.__name__) if theirs else None
        with record.VariableWatcher() as watcher:
            result = stated_before(function, args, kwargs)
        if which is None:
            return result
        variables = watcher.watched_variables()
        given = Given.of(positional(function), args, is_floating, in_parts)
        given.results = joined_results(filter(is_floating, tf.nest.flatten(result)), in_parts)
        captured = {f"variable {i}": in_parts(one) for i, one in enumerate(variables)}
        given.args = {**given.args, **captured}
        pull = _pull(function, args, kwargs, variables)
        found = declared.declared_results(which, given, pull, places.line())
        return result if found is None else _filled(result, found)

    with cuts(cut), temporarily(custom_gradient, **{DECORATOR: stated}):
        yield


def _copy(value: Any) -> Any:
    """A tensor, or what a tensor was read as, that the layer cannot change."""
    return tf.identity(value) if is_floating(value) else np.copy(value)


def _pull(function: Any, args: Sequence[Any], kwargs: Any, variables: Sequence[Any]) -> Pull:
    """The vjp of this call alone, by its own gradient function, with respect to its arguments and
    then to the variables that it uses."""
    kept = [tf.identity(a) if is_floating(a) else a for a in args]
    moving = [a for a in kept if is_floating(a)]

    def pull(row: Array) -> list[Array | None]:
        with tf.GradientTape() as tape:
            tape.watch(moving)
            result = tf.custom_gradient(function)(*kept, **kwargs)
            outputs = [y for y in tf.nest.flatten(result) if is_floating(y)]
        sources = [*moving, *variables]
        found = tape.gradient(outputs, sources, output_gradients=_tensors(row, outputs))
        return [None if g is None else in_parts(tf.convert_to_tensor(g)) for g in found]

    return pull


def _filled(result: Any, flat: Array) -> Any:
    """The result of a function with its floating numbers replaced."""
    every = tf.nest.flatten(result)
    parts = iter(_tensors(flat, [y for y in every if is_floating(y)]))
    return tf.nest.pack_sequence_as(result, [next(parts) if is_floating(y) else y for y in every])


def _tensors(flat: Array, likes: Sequence[Any]) -> list[Any]:
    """The numbers as tensors of the same shapes and dtypes as `likes`."""
    tensors = []
    for numbers, like in separate(flat, likes, lambda y: y.dtype.is_complex):
        part = tf.constant(numbers)
        if like.dtype.is_complex:
            part = tf.complex(part[..., 0], part[..., 1])
        tensors.append(tf.cast(part, like.dtype))
    return tensors

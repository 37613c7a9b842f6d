"""What a spec declares as meant in a layer of TensorFlow (`layer.declared`): its calls of
`tf.stop_gradient`, and of functions under `tf.custom_gradient`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import custom_gradient, gen_array_ops

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.declared import Declared, Given, NotDeclarable, Pull
from gradcheck_cli.engines.layer.source_lines import Places, lines, running
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.custom_functions import DECORATOR, in_parts, is_floating


@contextmanager
def holding(declared: Declared) -> Iterator[None]:
    """Meanwhile what is declared is as `declared` has it."""
    stop_before, stated_before = gen_array_ops.stop_gradient, getattr(custom_gradient, DECORATOR)
    places = Places(__name__)

    def stop(input: Any, name: Any = None) -> Any:
        result = stop_before(input, name=name)
        which = declared.line(lines(running()))
        return (
            result
            if which is None
            else declared.cut(which, result, tf.identity, places.line(), True)
        )

    def stated(function: Any, args: Any, kwargs: Any) -> Any:
        theirs = not of_a_library(getattr(function, "__module__", None))
        which = declared.function(function.__name__) if theirs else None
        result = stated_before(function, args, kwargs)
        if which is None:
            return result
        given = _given(function, args, result)
        pull = _pull(declared, which, function, args, kwargs)
        found = declared.called(which, given, pull, places.line())
        return result if found is None else _filled(result, found)

    stopping = temporarily(gen_array_ops, stop_gradient=stop)
    with stopping, temporarily(custom_gradient, **{DECORATOR: stated}):
        yield


def _given(function: Any, args: Sequence[Any], result: Any) -> Given:
    names = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ][: len(args)]
    names += [f"argument {i}" for i in range(len(names), len(args))]
    outputs = [y for y in tf.nest.flatten(result) if is_floating(y)]
    return Given(
        {n: in_parts(a) for n, a in zip(names, args, strict=True) if is_floating(a)},
        {n: a for n, a in zip(names, args, strict=True) if isinstance(a, bool | int | float)},
        np.concatenate([np.zeros(0), *(in_parts(y).reshape(-1) for y in outputs)]),
    )


def _pull(declared: Declared, which: int, function: Any, args: Sequence[Any], kwargs: Any) -> Pull:
    """Backward passes of this call alone, as the function states them."""
    kept = [tf.identity(a) if is_floating(a) else a for a in args]
    moving = [a for a in kept if is_floating(a)]

    def pull(row: Array) -> list[Array | None]:
        with tf.GradientTape() as tape:
            tape.watch(moving)
            result = tf.custom_gradient(function)(*kept, **kwargs)
            outputs = [y for y in tf.nest.flatten(result) if is_floating(y)]
        if tape.watched_variables():
            reason = "uses variables that are not its arguments, so it cannot be followed"
            raise NotDeclarable(declared.found[which].design, reason)
        cotangents, start = [], 0
        for y in outputs:
            part, start = _part(row, start, y)
            cotangents.append(part)
        found = tape.gradient(outputs, moving, output_gradients=cotangents)
        return [None if g is None else in_parts(tf.convert_to_tensor(g)) for g in found]

    return pull


def _filled(result: Any, flat: Array) -> Any:
    """The result of a function with these floating numbers in it."""
    parts, start = [], 0
    for y in tf.nest.flatten(result):
        if is_floating(y):
            y, start = _part(flat, start, y)
        parts.append(y)
    return tf.nest.pack_sequence_as(result, parts)


def _part(flat: Array, start: int, like: Any) -> tuple[Any, int]:
    """The tensor that begins here among the numbers, and where the next one does."""
    shape = (*like.shape, 2) if like.dtype.is_complex else tuple(like.shape)
    end = start + math.prod(shape)
    part = tf.constant(flat[start:end].reshape(shape))
    if like.dtype.is_complex:
        part = tf.complex(part[..., 0], part[..., 1])
    return tf.cast(part, like.dtype), end

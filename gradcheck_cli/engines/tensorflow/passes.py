"""What one run of a TensorFlow layer is made of: its outputs, a tape, gradients by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.layer.subject import Call, Output
from gradcheck_cli.engines.tensorflow.state import numbers

if TYPE_CHECKING:
    from gradcheck_cli.engines.tensorflow.layer import TensorFlowSubject

Named = list[tuple[str, Any]]


def described(arrays: Named) -> tuple[Output, ...]:
    """What came out, one after the other."""
    outputs: list[Output] = []
    start = 0
    for name, array in arrays:
        shape = tuple(int(n) for n in array.shape)
        outputs.append(Output(name, shape, str(array.dtype.name), start))
        start += outputs[-1].size
    return tuple(outputs)


def dense(tf: Any, array: Any) -> Any:
    """One tensor with all the numbers: those of a sparse one with its zeros, of a ragged one row
    after row."""
    if isinstance(array, tf.SparseTensor):
        return tf.sparse.to_dense(array)
    if isinstance(array, tf.RaggedTensor):
        return array.flat_values
    return tf.convert_to_tensor(array)


def stacked(parts: Sequence[Any], source: Any) -> Array:
    """Gradients of several passes as rows, (k, n); a missing one is zeros."""
    size = int(np.prod(source.shape, dtype=np.int64))
    return np.stack([np.zeros(size) if p is None else numbers(p).reshape(size) for p in parts])


def taping(tf: Any, passes: int, tracking: bool) -> Any:
    """A tape for so many passes, which watches what it is told to; nothing without tracking."""
    if not tracking:
        return nullcontext()
    return tf.GradientTape(persistent=passes > 1, watch_accessed_variables=False)


def pulled_by_row(
    subject: TensorFlowSubject,
    call: Call,
    inputs: Mapping[str, Any],
    sources: Sequence[Any],
    wrt: Sequence[str],
    tape: Any,
    arrays: Named,
) -> Iterator[list[Any]]:
    """A backward pass for each row of the call. The gradient of a `tf.py_function` can be asked for
    once a run, so that a layer with one runs again for every row."""
    for place, row in enumerate(() if call.cotangents is None else call.cotangents):
        if place and subject.asks_once:
            tape, arrays = _anew(subject, call, inputs, sources)
        try:
            found = subject.pulled(tape, arrays, row, sources, wrt, call.used_outputs)
        except subject.tf.errors.UnknownError:
            if not place or subject.asks_once:
                raise
            subject.asks_once = True
            tape, arrays = _anew(subject, call, inputs, sources)
            found = subject.pulled(tape, arrays, row, sources, wrt, call.used_outputs)
        yield found


def _anew(
    subject: TensorFlowSubject, call: Call, inputs: Mapping[str, Any], sources: Sequence[Any]
) -> tuple[Any, Named]:
    with subject.ready(call.values):
        return subject.taped(inputs, sources, 1, call.tracking)


def differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> tuple[str, ...]:
    """Names of what is not as it was."""
    return tuple(name for name, numbers_ in one.items() if other[name] != numbers_)


@contextmanager
def eagerly(tf: Any) -> Iterator[None]:
    """What a tf.function has traced refers to the user's variables, and others stand in their
    places."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)

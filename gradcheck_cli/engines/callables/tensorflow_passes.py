"""What one run of a TensorFlow layer is made of: its outputs, a tape, gradients by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.callables.subject import Output
from gradcheck_cli.engines.callables.tensorflow_holding import numbers

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


def stacked(parts: Sequence[Any], source: Any) -> Array:
    """Gradients of several passes as rows, (k, n); a missing one is zeros."""
    size = int(np.prod(source.shape, dtype=np.int64))
    return np.stack([np.zeros(size) if p is None else numbers(p).reshape(size) for p in parts])


def taping(tf: Any, passes: int, tracking: bool) -> Any:
    """A tape for so many passes, which watches what it is told to; nothing without tracking."""
    if not tracking:
        return nullcontext()
    return tf.GradientTape(persistent=passes > 1, watch_accessed_variables=False)


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

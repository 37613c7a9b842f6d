"""The gradients of a TensorFlow layer without its bounds. Every operation of the forward pass is
observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from gradcheck_cli.domain.dtypes import ValuesOrNone
from gradcheck_cli.engines.layer.bounds import BOUNDS, Bound, Bounds, lifted, word_of
from gradcheck_cli.engines.layer.custom import UnclippedGradients
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.tensorflow.casts import Run, around_operations, tensors
from gradcheck_cli.engines.tensorflow.state import numbers


class _Numbered:
    """Numbers the operations that bound. Shows all operations to `bounds`, or skips the bound
    `opened`."""

    def __init__(self, bounds: Bounds | None = None, opened: Bound | None = None) -> None:
        self._bounds = bounds
        self._opened = opened
        self._serial = 0
        self._places = Places(__name__, Bounds.__module__, around_operations.__module__)

    def handle(self, name: str, inputs: Sequence[Any], attributes: Sequence[Any], run: Run) -> Any:
        result = run(inputs, attributes)
        is_bound = word_of(name) in BOUNDS
        self._serial += is_bound
        if self._bounds is not None and name != "StopGradient":
            self._bounds.operation(
                self._serial, name, inputs, tensors([result]), self._places.running
            )
        if self._opened is not None and is_bound and self._serial == self._opened.serial:
            return tf.identity(inputs[self._opened.which])
        return result


def unclipped_gradients(
    followed: Sequence[Any], forward: Callable[[], Any], run: Callable[[], ValuesOrNone]
) -> list[UnclippedGradients]:
    """The gradients without each bound that keeps a number from a pole. `forward` makes a forward
    pass, in which numbers that depend on `followed` are followed. `run` makes a forward pass and
    backward passes, and returns the gradients by leaf."""
    bounds = Bounds(lambda x: {one._id for one in tensors([x])}, numbers)
    bounds.follow(followed)
    with around_operations(_Numbered(bounds).handle):
        forward()

    def gradients(opened: Bound) -> ValuesOrNone:
        with around_operations(_Numbered(opened=opened).handle):
            return run()

    return lifted(bounds.found.values(), gradients)

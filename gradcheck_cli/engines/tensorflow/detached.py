"""Where a layer of TensorFlow stops gradients, and what they are if it does not.

Every `tf.stop_gradient` ends in one function. In a second run it passes through what it is given
where one line calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.ops import gen_array_ops

from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.layer.custom import MOST_CUTS, GradientBarrier
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.temporarily import temporarily


@contextmanager
def _stops(opened: Place | None = None) -> Iterator[dict[Place, None]]:
    """The lines of the user's on which gradients are stopped meanwhile, but not at `opened`."""
    before = gen_array_ops.stop_gradient
    places = Places(__name__)
    seen: dict[Place, None] = {}

    def stop(input: Any, name: Any = None) -> Any:
        place = places.running()
        if place is not None:
            seen[place] = None
            if place == opened:
                return _recorded(input)
        return before(input, name=name)

    with temporarily(gen_array_ops, stop_gradient=stop):
        yield seen


def _recorded(array: Any) -> Any:
    """The array, handed on where tapes were made to stop (`tf.stop_gradient` tells them)."""
    pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
    try:
        return tf.identity(array)
    finally:
        pywrap_tfe.TFE_Py_TapeSetStopOnThread()


def uncut(run: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any], list[GradientBarrier]]:
    """The gradients as they are, and with each stop let through. `run` makes a forward and a
    backward pass, and gives the gradients by leaf."""
    with _stops() as seen:
        plain = run()
    found = []
    for place in list(seen)[:MOST_CUTS]:
        with _stops(place):
            found.append(GradientBarrier("tf.stop_gradient()", place, run()))
    return plain, found

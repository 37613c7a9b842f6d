"""Where a TensorFlow layer stops gradients, and what the gradients would be otherwise.

Every `tf.stop_gradient` ends in one function. In a second run, the calls on one line return their
argument unchanged.
"""

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
    """The user's lines that stop gradients inside the block. The line `opened` does not stop
    them."""
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
    """The array, recorded on tapes that `tf.stop_gradient` has told to stop."""
    pywrap_tfe.TFE_Py_TapeSetRestartOnThread()
    try:
        return tf.identity(array)
    finally:
        pywrap_tfe.TFE_Py_TapeSetStopOnThread()


def uncut(run: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any], list[GradientBarrier]]:
    """The gradients as they are, and with each stop let through in turn. `run` makes a forward and
    a backward pass, and returns the gradients by leaf."""
    with _stops() as seen:
        plain = run()
    found = []
    for place in list(seen)[:MOST_CUTS]:
        with _stops(place):
            found.append(GradientBarrier("tf.stop_gradient()", place, run()))
    return plain, found

"""Records the operations that a pair of NumPy functions runs, and the user's line of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.layer.recording import Recording, as_recording
from gradcheck_cli.engines.numpy.recorder import NumpyRecorder

Arrays = Mapping[str, Any]
Forward = Callable[[Arrays], list[Any]]
"""From the leaves, as recording arrays, to the outputs."""


def record(
    leaves: Arrays, forward: Forward, place: Span, backward: Callable[[], Arrays] | None = None
) -> Recording:
    """Record one forward pass and, with `backward`, one backward pass, which returns gradients by
    leaf. Raises TooLarge, and what the user's code raises. Raises Unsupported if only forward runs
    and an output was computed by unrecorded operations."""
    recorder = NumpyRecorder()
    noted = {name: recorder.recorded(array) for name, array in leaves.items()}
    slots = {name: array.slot for name, array in noted.items()}
    gradients: dict[str, int | None] = {}
    with recorder.recording():
        outputs = [recorder.slot_of(array) for array in forward(noted)]
        if backward is not None:
            recorder.backward = True
            gradients = {name: recorder.slot_of(grad) for name, grad in backward().items()}
    made = [slot for slot in outputs if slot is not None]
    if backward is None and len(made) < len(outputs):
        raise Unsupported("its operations cannot be recorded")
    return as_recording(recorder.annotations, slots, gradients, made, place)

"""Which elements of every array of a run the traced entry depends on.

Only operations that are known to work element by element narrow it down; of all others every
argument counts whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.execution import Execution, Step


def relevant(execution: Execution, needed: Sequence[int]) -> dict[int, Array]:
    """By slot, the elements (True) on which the target's traced element depends; a slot that is
    missing counts whole."""
    if execution.target is None:
        return {}
    wanted = np.zeros(_shape(execution, execution.target), dtype=np.bool_)
    wanted.reshape(-1)[execution.place] = True
    masks: dict[int, Array | None] = {execution.target: wanted}  # None: whole
    for place in reversed(needed):
        step = execution.steps[place]
        mask = masks.get(step.results[0]) if _narrows(step) else None
        for slot in step.args:
            part = None if mask is None else _of_argument(_shape(execution, slot), mask)
            before = masks.get(slot, part)
            masks[slot] = None if part is None or before is None else before | part
    return {slot: mask for slot, mask in masks.items() if mask is not None}


def _narrows(step: Step) -> bool:
    return step.elementwise and len(step.results) == 1


def _of_argument(shape: tuple[int, ...], mask: Array) -> Array | None:
    """The elements of an argument of this shape that the wanted results are made of; None for
    all."""
    if not _meets(shape, mask.shape):
        return None
    summed = np.asarray(np.any(mask, axis=tuple(range(mask.ndim - len(shape)))))
    once = tuple(i for i, n in enumerate(shape) if n == 1)
    return np.asarray(np.any(summed, axis=once, keepdims=True))


def _meets(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array of shape `own` is broadcast to `shape`."""
    try:
        return np.broadcast_shapes(own, shape) == shape
    except ValueError:
        return False


def _shape(execution: Execution, slot: int) -> tuple[int, ...]:
    return tuple(int(n) for n in getattr(execution.slots[slot].native, "shape", ()))

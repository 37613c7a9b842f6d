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
    masks: dict[int, Array] = {}
    wanted = np.zeros(_shape(execution, execution.target), dtype=np.bool_)
    wanted.reshape(-1)[execution.place] = True
    masks[execution.target] = wanted
    for place in reversed(needed):
        step = execution.steps[place]
        for slot in step.args:
            shape = _shape(execution, slot)
            part = _of_argument(execution, step, shape, masks)
            masks[slot] = masks[slot] | part if slot in masks else part
    return masks


def _of_argument(
    execution: Execution, step: Step, shape: tuple[int, ...], masks: dict[int, Array]
) -> Array:
    """The elements of an argument of this shape that the wanted results are made of."""
    (result, *others) = step.results
    mask = masks.get(result)
    narrow = step.elementwise and not others and mask is not None
    if not narrow or not _meets(shape, _shape(execution, result)):
        return np.ones(shape, dtype=np.bool_)
    assert mask is not None
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

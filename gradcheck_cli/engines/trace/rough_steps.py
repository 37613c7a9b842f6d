"""Finds the operation of a recorded run that has no derivative if one number moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gradcheck_cli.domain.dtypes import Array, are_equal
from gradcheck_cli.domain.thresholds import BENT_SLOPES, KINK_OR_CURVE, Residue, Step
from gradcheck_cli.engines.execution import Execution, Native
from gradcheck_cli.engines.execution import Step as Operation

Sides: TypeAlias = tuple[dict[int, Native], dict[int, Native]]
"""What slots have on one side of the point of the run, and on the other side."""

SHORT: Step = 2.0**-20  # of the number that moves: far more than its rounding
LONG: Step = 2.0**-14
ROUNDED: Residue = 2.0**-46
"""Less, of the largest number of an array, are roundings of sums."""


def rough_step(
    execution: Execution, outputs: Sequence[int], short: Sides, long: Sides
) -> Operation | None:
    """The step that makes an output rough: its arguments are smooth, and its result is as rough as
    the output. `short` and `long` are the values on both sides at a SHORT and a LONG distance from
    the point. None if no output is rough, or a step is not repeatable."""
    needed = execution.needed(outputs)
    moving = {slot: execution.slots[slot].native for slot in short[0]}
    here = execution.values_if_moved(moving, needed)
    if not all(are_equal(execution.values(slot), _numbers(execution, here[slot])) for slot in here):
        return None
    runs = [execution.values_if_moved(side, needed) for side in (*short, *long)]
    steps = [execution.steps[place] for place in needed]
    made = {slot: step for step in steps for slot in step.results}

    def growth(slot: int) -> float:
        if slot not in here or execution.values(slot).dtype.kind != "f":
            return math.inf
        return _growth(execution.values(slot), *(_numbers(execution, run[slot]) for run in runs))

    slot, step = min(outputs, key=growth), None
    worst = growth(slot)
    while worst < (LONG / SHORT) ** KINK_OR_CURVE and slot in made:
        step = made[slot]
        slot = min(step.args, key=growth)
        if growth(slot) > 2 * worst:
            break
        worst = growth(slot)
    return step


def _numbers(execution: Execution, native: Native) -> Array:
    plain = isinstance(native, (bool, int, float))
    return np.asarray(native if plain else execution.conversions.numpy(native))


def _growth(at: Array, *sides: Array) -> float:
    """The ratio between the differences of both one-sided slopes on the long and the short step,
    for the number with the smallest ratio: 1 at a jump, inf if everything is smooth."""
    if any(side.shape != at.shape for side in sides):
        return 1.0
    finite = np.isfinite(np.stack([at, *sides]))
    if np.any(finite.any(0) & ~finite.all(0)):
        return 1.0
    apart, bent = zip(*(_slope_change(at, *sides[i : i + 2]) for i in (0, 2)), strict=True)
    size = np.max(np.abs(at), initial=0.0, where=np.isfinite(at))
    shown = bent[0] & bent[1] & (apart[0] > ROUNDED * size)
    return float(np.min(apart[1] / apart[0], initial=math.inf, where=shown))


def _slope_change(at: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """How much the changes on both sides differ, and whether that is a considerable part of
    them."""
    before, after = at - left, right - at
    apart = np.abs(after - before)
    return apart, apart > BENT_SLOPES * (np.abs(before) + np.abs(after))

"""What each executed operation does wrong by itself.

The local error of an operation: its exact inputs, rounded to the dtype, through this one operation,
against the exact result (Panchekha et al., PLDI 2015, section 4.3). An operation that is wrong
because of its inputs has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.engines.alone import ROUNDING, Alone, plainly_right
from gradcheck_cli.engines.execution import Execution, High, Step
from gradcheck_cli.engines.relevance import relevant
from gradcheck_cli.engines.shadow import Shadow, differences, fits, is_finite, is_zero, to_shown

# A loss of more than this part of the digits is more than roundings do; it is where judging begins
# to warn.
REMAINING = 0.25


@dataclass(frozen=True, slots=True)
class Found:
    """An operation with a local error: its place among the steps; `severe` where it loses more than
    a quarter of the digits. It is a `victim` where an exact input is no number of the dtype: then
    not it left the range, but what gave the input. One that is severe and no victim `inherits`
    where its result is off by far more than its own error: what came in was wrong already. It is
    `singular` where it has no finite value in exact arithmetic, of finite numbers: rounding has no
    part in that."""

    place: int
    operation: Operation
    severe: bool
    victim: bool
    inherits: bool
    singular: bool = False


def local_errors(execution: Execution, needed: Sequence[int], alone: Alone) -> Iterator[Found]:
    """The operations that round by more than a library may, in order, each at its worst element of
    those that the traced entry depends on."""
    doubtful = alone.doubtful(needed)
    masks = relevant(execution, needed) if doubtful else {}
    for place, k in doubtful:
        found = _found(alone.shadow, place, k, alone.results(place)[k], masks)
        if found is not None:
            yield found


def _found(
    shadow: Shadow, place: int, k: int, result: Array, masks: Mapping[int, Array]
) -> Found | None:
    """What result k of the step shows, which is `result` where the operation is alone."""
    execution = shadow.execution
    step = execution.steps[place]
    slot = step.results[k]
    format = execution.slots[slot].format
    near = shadow.near(slot)
    doubt = ~plainly_right(near, result, format)
    if slot in masks:
        doubt &= masks[slot]
    at = np.flatnonzero(doubt)
    exact, near, result = (np.asarray(x).reshape(-1)[at] for x in (shadow[slot], near, result))
    without = np.flatnonzero(~is_finite(exact))
    if without.size and all(np.all(is_finite(shadow[i])) for i in step.args):
        pole = _operation(shadow, step, slot, int(at[without[0]]), float("inf"))
        return Found(place, pole, False, False, False, True)
    errors, lost = _errors(exact, near, result, format)
    if not at.size or max(errors.max(), lost.max()) <= ROUNDING:
        return None
    bits = 1.0 if format is None else 2.0 ** (REMAINING * format.bits)
    # what was lost counts first: an underflow is large there and half an ulp in the other
    order = np.where(lost > bits, np.inf, lost) + np.where(errors > bits, errors, 0)
    # and of those that lost everything, what is no number before what is zero
    worst = int(np.argmax(np.where(order == order.max(), errors, -1.0)))
    own = float(max(errors[worst], lost[worst]))
    shown = _operation(shadow, step, slot, int(at[worst]), float(errors[worst]))
    victim = _out_of_range(shadow, step, shown.index, np.shape(shadow[slot]))
    severe = own > bits
    inherits = severe and not victim and _inherits(shadow, slot, shown.index, own)
    return Found(place, shown, severe, victim, inherits)


def _inherits(shadow: Shadow, slot: int, index: tuple[int, ...], own: float) -> bool:
    """Whether the result of the run lost a quarter of the digits more than the operation alone."""
    format = shadow.execution.slots[slot].format
    if format is None:
        return False
    arrays = (shadow[slot], shadow.near(slot), shadow.execution.values(slot))
    exact, near, result = (np.asarray(np.asarray(x)[index]).reshape(1) for x in arrays)
    errors, lost = _errors(exact, near, result, format)
    return bool(max(errors[0], lost[0]) > own * 2.0 ** (REMAINING * format.bits))


def _out_of_range(
    shadow: Shadow, step: Step, index: tuple[int, ...], shape: tuple[int, ...]
) -> bool:
    """Whether an exact input of the element is no number of its dtype; of an argument of which no
    single element meets it, any."""
    for slot in step.args:
        format = shadow.execution.slots[slot].format
        if format is not None:
            x = np.asarray(shadow[slot])
            met = _place(x.shape, index, shape)
            if not np.all(fits(x if met is None else x[met], format)):
                return True
    return False


def _errors(
    exact: High, near: Array, result: Array, format: FloatFormat | None
) -> tuple[Array, Array]:
    """Of each element of a list: the error in ulps of the format; the same in units of the last of
    the digits that the number would have, were it not below the range. `near` is `exact` as
    float64.

    inf where only one of the two is finite, or where a decision goes the other way.
    """
    if format is None:
        wrong = np.where(near != result, np.inf, 0.0)
        return wrong, wrong
    finite, given = is_finite(exact), np.isfinite(result)
    # two infinities of different signs, or an infinity and a nan
    unlike = ~finite & ~given & ~np.isnan(near) & (near != result)
    errors = np.where((finite != given) | unlike, np.inf, 0.0)
    lost = errors.copy()
    both = np.flatnonzero(finite & given)
    if both.size:
        errors[both], lost[both] = _off(exact[both], near[both], result[both], format)
    return errors, lost


def _off(exact: High, near: Array, result: Array, format: FloatFormat) -> tuple[Array, Array]:
    """The same of numbers that are all finite."""
    off = differences(exact, result)
    with np.errstate(all="ignore"):
        relative = off / np.abs(near) * 2.0 ** (format.bits - 1)
    lost = np.where(off > 0, np.where(np.isnan(relative), np.inf, relative), 0.0)
    # smaller than any number of float64, and no number at all here
    none = (near == 0) & (result == 0)
    if none.any():
        lost = np.where(none & ~is_zero(exact), np.inf, lost)
    with np.errstate(all="ignore"):
        return off / format.ulp(near), np.maximum(lost, 0)


def _operation(shadow: Shadow, step: Step, slot: int, flat: int, error: float) -> Operation:
    """The operation at one element of its result, which is number `flat` in it."""
    values = shadow.execution.values
    shape = np.shape(shadow[slot])
    at = tuple(int(i) for i in np.unravel_index(flat, shape))
    return Operation(
        name=step.name,
        phase=step.phase,
        node=step.node,
        index=at,
        inputs=tuple(_met(values(i), at, shape) for i in step.args),
        exact_inputs=tuple(_met(shadow[i], at, shape) for i in step.args),
        result=float(values(slot)[at]),
        exact=to_shown(np.asarray(shadow[slot])[at]),
        error=error,
        place=step.place,
    )


def _met(x: High, index: tuple[int, ...], shape: tuple[int, ...]) -> float:
    """The one element of an argument that meets the element of the result by broadcasting; nan
    where there is none."""
    x = np.asarray(x)
    met = _place(x.shape, index, shape)
    return float("nan") if met is None else to_shown(x[met])


def _place(
    own: tuple[int, ...], index: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    if own == shape:
        return index
    try:
        if np.broadcast_shapes(own, shape) != shape:
            return None
    except ValueError:
        return None
    last = index[len(shape) - len(own) :]
    return tuple(0 if n == 1 else i for i, n in zip(last, own, strict=True))

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
from gradcheck_cli.engines.execution import Execution, High, Step
from gradcheck_cli.engines.relevance import relevant
from gradcheck_cli.engines.shadow import (
    differences,
    fits,
    is_finite,
    is_zero,
    to_float,
    to_shown,
)

# Functions of a library are right to 1 or 2 ulps, its backward kernels round two or three times.
ROUNDING = 4.0

# A loss of more than this part of the digits is more than roundings do; it is where judging begins
# to warn.
REMAINING = 0.25


@dataclass(frozen=True, slots=True)
class Found:
    """An operation with a local error: its place among the steps; `severe` where it loses more than
    a quarter of the digits. It is a `victim` where an exact input is no number of the dtype: then
    not it left the range, but what gave the input. It `inherits` where its result is off by far
    more than its own error: what came in was wrong already. It is `singular` where it has no finite
    value in exact arithmetic, of finite numbers: rounding has no part in that."""

    place: int
    operation: Operation
    severe: bool
    victim: bool
    inherits: bool
    singular: bool = False


def local_errors(
    execution: Execution, needed: Sequence[int], exact: Mapping[int, High]
) -> Iterator[Found]:
    """The operations that round by more than a library may, in order, each at its worst element of
    those that the traced entry depends on."""
    masks = relevant(execution, needed)
    for place in needed:
        step = execution.steps[place]
        for slot, result in zip(step.results, alone(execution, step, exact), strict=True):
            format = execution.slots[slot].format
            if step.moves and format is not None:
                continue
            if _plainly_right(exact[slot], result, format):
                continue
            pole = _pole(execution, step, slot, exact, masks.get(slot))
            if pole is not None:
                yield Found(place, pole, False, False, False, True)
                continue
            errors, lost = _errors(exact[slot], result, format)
            if slot in masks:
                errors, lost = (np.where(masks[slot], x, 0.0) for x in (errors, lost))
            if not errors.size or max(errors.max(), lost.max()) <= ROUNDING:
                continue
            bits = 1.0 if format is None else 2.0 ** (REMAINING * format.bits)
            # what was lost counts first: an underflow is large there and half an ulp in the other
            order = np.where(lost > bits, np.inf, lost) + np.where(errors > bits, errors, 0)
            # and of those that lost everything, what is no number before what is zero
            first = np.where(order == order.max(), errors, -1.0)
            index = np.unravel_index(int(np.argmax(first)), errors.shape)
            severe = bool(max(errors[index], lost[index]) > bits)
            shown = _operation(execution, step, slot, index, float(errors[index]), exact)
            victim = _out_of_range(execution, step, shown.index, errors.shape, exact)
            yield Found(
                place,
                shown,
                severe,
                victim,
                severe
                and _inherits(execution, slot, index, max(errors[index], lost[index]), exact),
            )


def _plainly_right(exact: High, result: Array, format: FloatFormat | None) -> bool:
    """Whether all are normal numbers within a few ulps: most are, and this is soon seen."""
    if format is None:
        return False
    near = to_float(exact)
    size = np.abs(near)
    normal = (size >= format.smallest_normal) & (size <= format.largest)
    # an ulp is more than 2^-bits of the number, and near is half an ulp of float64 off at most
    close = np.abs(near - result) <= (ROUNDING - 1) * 2.0**-format.bits * size
    return bool(np.all(normal & close))


def _pole(
    execution: Execution, step: Step, slot: int, exact: Mapping[int, High], wanted: Array | None
) -> Operation | None:
    """The operation at a wanted element where it gives no finite number of finite ones."""
    infinite = ~is_finite(exact[slot])
    without = np.argwhere(infinite if wanted is None else infinite & wanted)
    inputs = [exact[i] for i in step.args]
    if len(without) and all(np.all(is_finite(x)) for x in inputs):
        index = tuple(without[0])
        return _operation(execution, step, slot, index, float("inf"), exact)
    return None


def _inherits(
    execution: Execution,
    slot: int,
    index: tuple[np.intp, ...],
    own: float,
    exact: Mapping[int, High],
) -> bool:
    """Whether the result of the run lost a quarter of the digits more than the operation alone."""
    format = execution.slots[slot].format
    if format is None:
        return False
    errors, lost = _errors(np.asarray(exact[slot])[index], execution.values(slot)[index], format)
    return bool(max(float(errors), float(lost)) > own * 2.0 ** (REMAINING * format.bits))


def _out_of_range(
    execution: Execution,
    step: Step,
    index: tuple[int, ...],
    shape: tuple[int, ...],
    exact: Mapping[int, High],
) -> bool:
    """Whether an exact input of the element is no number of its dtype; of an argument of which no
    single element meets it, any."""
    for slot in step.args:
        format = execution.slots[slot].format
        if format is not None:
            x = np.asarray(exact[slot])
            met = _place(x.shape, index, shape)
            if not np.all(fits(x if met is None else x[met], format)):
                return True
    return False


def alone(execution: Execution, step: Step, exact: Mapping[int, High]) -> list[Array]:
    """The operation in the dtype on its exact inputs, rounded."""
    same = True
    args = []
    for slot in step.args:
        native = execution.slots[slot].native
        if not isinstance(native, (int, float)):
            rounded = to_float(exact[slot])
            format = execution.slots[slot].format
            if format is not None:
                rounded = format.round(rounded)
            if not np.array_equal(
                rounded, execution.values(slot), equal_nan=rounded.dtype.kind == "f"
            ):
                same = False
                native = execution.conversions.native(rounded, native)
        args.append(native)
    if same:
        return [execution.values(slot) for slot in step.results]
    return [np.asarray(execution.conversions.numpy(y)) for y in step.low(args)]


def _errors(exact: High, result: Array, format: FloatFormat | None) -> tuple[Array, Array]:
    """Of each element: the error in ulps of the format; the same in units of the last of the digits
    that the number would have, were it not below the range.

    inf where only one of the two is finite, or where a decision goes the other way.
    """
    if format is None:
        wrong = np.where(np.asarray(to_float(exact) != result), np.inf, 0.0)
        return wrong, wrong
    near = to_float(exact)
    finite = is_finite(exact)
    with np.errstate(all="ignore"):
        off = differences(exact, np.asarray(result, np.float64))
        ulps = off / format.ulp(near)
        relative = off / np.abs(near) * 2.0 ** (format.bits - 1)
    both = finite & np.isfinite(result)
    only_one = np.where(finite == np.isfinite(result), 0.0, np.inf)
    # two infinities of different signs, or an infinity and a nan
    unlike = ~finite & ~np.isfinite(result) & ~np.isnan(near) & (near != result)
    only_one = np.where(unlike, np.inf, only_one)
    lost = np.where(both & (off > 0), np.where(np.isnan(relative), np.inf, relative), 0.0)
    # smaller than any number of float64, and no number at all here
    lost = np.where(both & (near == 0) & (result == 0) & ~is_zero(exact), np.inf, lost)
    return np.where(both, ulps, only_one), np.where(both, np.maximum(lost, 0), only_one)


def _operation(
    execution: Execution,
    step: Step,
    slot: int,
    index: tuple[np.intp, ...],
    error: float,
    exact: Mapping[int, High],
) -> Operation:
    at = tuple(int(i) for i in index)
    shape = np.shape(exact[slot])
    return Operation(
        name=step.name,
        phase=step.phase,
        node=step.node,
        index=at,
        inputs=tuple(_met(execution.values(i), at, shape) for i in step.args),
        exact_inputs=tuple(_met(exact[i], at, shape) for i in step.args),
        result=float(execution.values(slot)[at]),
        exact=to_shown(np.asarray(exact[slot])[at]),
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
    try:
        if np.broadcast_shapes(own, shape) != shape:
            return None
    except ValueError:
        return None
    last = index[len(shape) - len(own) :]
    return tuple(0 if n == 1 else i for i, n in zip(last, own, strict=True))

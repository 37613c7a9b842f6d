"""The error of each executed operation in isolation.

The local error of an operation is the error of its result if its exact inputs are rounded to the
dtype (Panchekha et al., PLDI 2015, section 4.3). An operation that is wrong only because of its
inputs has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import FEW_ULPS, NOTE_BITS
from gradcheck_cli.engines.execution import Execution, High
from gradcheck_cli.engines.trace.exact_kernels import is_finite
from gradcheck_cli.engines.trace.isolated_ops import IsolatedOps
from gradcheck_cli.engines.trace.shadow import Shadow, differences, fits, is_zero, nearest_float64
from gradcheck_cli.formula.shapes import broadcasts


@dataclass(frozen=True, slots=True)
class Found:
    """An operation with a local error: its place among the steps, the worst element of the result
    in `slot` (number `flat` of it), and its error in ulps. `severe`: it loses more than a quarter
    of the digits. `victim`: an exact input is outside of the range of the dtype, so that the
    operation which computed the input left the range. `inherits`: it is severe and not a victim,
    but its result is off by far more than its own error, because its inputs were wrong. `singular`:
    in exact arithmetic it has no finite value for finite inputs, so rounding is not involved."""

    place: int
    slot: int
    flat: int
    error: float
    severe: bool = False
    victim: bool = False
    inherits: bool = False
    singular: bool = False


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A result of a step, and those of its wanted elements that may not round as they should."""

    place: int
    slot: int
    at: Array
    result: Array


def local_errors(execution: Execution, needed: Sequence[int], isolated: IsolatedOps) -> list[Found]:
    """The operations that round by more than a library may, in order, each at its worst element
    among those that the traced entry depends on."""
    doubtful = isolated.doubtful(needed)
    masks = _relevant(execution, needed) if doubtful else {}
    doubts: dict[_Kind, list[_Doubt]] = {}
    for place, k, at in doubtful:
        slot = execution.steps[place].results[k]
        if slot in masks:
            at = at[masks[slot].reshape(-1)[at]]
        if at.size:
            doubt = _Doubt(place, slot, at, isolated.results(place)[k].reshape(-1)[at])
            doubts.setdefault(_kind(isolated.shadow, slot), []).append(doubt)
    found = [
        one
        for kind, some in doubts.items()
        for one in _local_errors(isolated.shadow, some, kind[0])
    ]
    return sorted(found, key=lambda one: (one.place, one.slot))


_Kind = tuple[FloatFormat | None, np.dtype[Any]]
"""The format of a slot, and of what its exact numbers are an array."""


def _kind(shadow: Shadow, slot: int) -> _Kind:
    return shadow.execution.slots[slot].format, np.asarray(shadow[slot]).dtype


def _local_errors(
    shadow: Shadow, doubts: Sequence[_Doubt], format: FloatFormat | None
) -> Iterator[Found]:
    """The local errors of all results of one format."""
    exact = np.concatenate([np.asarray(shadow[one.slot]).reshape(-1)[one.at] for one in doubts])
    near = np.concatenate([shadow.nearest_floats(one.slot).reshape(-1)[one.at] for one in doubts])
    finite = is_finite(exact)
    errors, lost = _errors(exact, near, np.concatenate([one.result for one in doubts]), format)
    sizes = [one.at.size for one in doubts]
    starts = np.cumsum([0, *sizes[:-1]])
    bits = 1.0 if format is None else format.lost(NOTE_BITS)
    # what was lost counts first: an underflow is large there and half an ulp in the other
    order = np.where(lost > bits, np.inf, lost) + np.where(errors > bits, errors, 0)
    # and of those that lost everything, what is no number before what is zero
    first = np.where(order == np.repeat(np.maximum.reduceat(order, starts), sizes), errors, -1.0)
    worst = _first_largest(first, starts, sizes)
    largest = np.maximum.reduceat(np.maximum(errors, lost), starts)
    measured: list[tuple[Found, float]] = []
    for one, start, size, i, most in zip(doubts, starts, sizes, worst, largest, strict=True):
        without = np.flatnonzero(~finite[start : start + size])
        if without.size and _all_finite(shadow, one):
            at = int(one.at[without[0]])
            yield Found(one.place, one.slot, at, float("inf"), singular=True)
        elif most > FEW_ULPS:
            own = float(max(errors[i], lost[i]))
            at = int(one.at[i - start])
            measured.append((Found(one.place, one.slot, at, float(errors[i]), own > bits), own))
    victims = _victims(shadow, [one for one, _ in measured])
    for i, (local, own) in enumerate(measured):
        victim = i in victims
        inherits = local.severe and not victim and _inherits(shadow, local, own)
        yield replace(local, victim=victim, inherits=inherits)


def _first_largest(values: Array, starts: Array, sizes: Sequence[int]) -> Array:
    """The place of the largest number of each part, the first of several."""
    largest = np.repeat(np.maximum.reduceat(values, starts), sizes)
    places = np.flatnonzero(values == largest)
    return places[np.searchsorted(places, starts)]


def _all_finite(shadow: Shadow, doubt: _Doubt) -> bool:
    """Whether all inputs of the operation are finite in exact arithmetic."""
    args = shadow.execution.steps[doubt.place].args
    return all(np.all(is_finite(shadow[slot])) for slot in args)


def _index(shadow: Shadow, one: Found) -> tuple[int, ...]:
    return index_of(one.flat, np.shape(shadow[one.slot]))


def _inherits(shadow: Shadow, one: Found, own: float) -> bool:
    """Whether the result in the run lost a quarter of the digits more than the operation in
    isolation."""
    format = shadow.execution.slots[one.slot].format
    if format is None:
        return False
    at = slice(one.flat, one.flat + 1)
    arrays = (shadow[one.slot], shadow.nearest_floats(one.slot), shadow.execution.values(one.slot))
    exact, near, result = (np.asarray(x).reshape(-1)[at] for x in arrays)
    errors, lost = _errors(exact, near, result, format)
    return bool(max(errors[0], lost[0]) > own * format.lost(NOTE_BITS))


def _victims(shadow: Shadow, found: Sequence[Found]) -> set[int]:
    """Operations with an exact input outside of the range of its dtype: the input that meets the
    element by broadcasting, or any input if none does."""
    slots = shadow.execution.slots
    met: dict[_Kind, list[tuple[int, Any]]] = {}
    victims: set[int] = set()
    for i, one in enumerate(found):
        index, shape = _index(shadow, one), np.shape(shadow[one.slot])
        for slot in shadow.execution.steps[one.place].args:
            format = slots[slot].format
            if format is None:
                continue
            x = np.asarray(shadow[slot])
            place = _place(x.shape, index, shape)
            if place is not None:
                met.setdefault(_kind(shadow, slot), []).append((i, x[place]))
            elif not np.all(fits(x, format)):
                victims.add(i)
    for (wanted, kind), numbers in met.items():
        assert wanted is not None
        inside = fits(np.array([x for _, x in numbers], kind), wanted)
        victims.update(i for (i, _), fit in zip(numbers, inside, strict=True) if not fit)
    return victims


def _errors(
    exact: High, near: Array, result: Array, format: FloatFormat | None
) -> tuple[Array, Array]:
    """For each element: the error in ulps of the format; and the error in units of the last digit
    that the number would have without underflow. `near` is `exact` as float64.

    inf if only one of the two is finite, or if a decision goes the other way.
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
        errors[both], lost[both] = _error_of(exact[both], near[both], result[both], format)
    return errors, lost


def _error_of(exact: High, near: Array, result: Array, format: FloatFormat) -> tuple[Array, Array]:
    """The local error of numbers that are all finite."""
    off = differences(exact, result)
    relative = off / np.abs(near) * 2.0 ** (format.bits - 1)
    lost = np.where(off > 0, np.where(np.isnan(relative), np.inf, relative), 0.0)
    # smaller than any number of float64, and no number at all here
    none = (near == 0) & (result == 0)
    if none.any():
        lost = np.where(none & ~is_zero(exact), np.inf, lost)
    return off / format.ulp(near), np.maximum(lost, 0)


def described(shadow: Shadow, one: Found) -> Operation:
    """The operation, at its worst element."""
    step = shadow.execution.steps[one.place]
    values = shadow.execution.values
    at, shape = _index(shadow, one), np.shape(shadow[one.slot])
    return Operation(
        name=step.name,
        phase=step.phase,
        node=step.node,
        index=at,
        inputs=tuple(_element_at(values(i), at, shape) for i in step.args),
        exact_inputs=tuple(_element_at(shadow[i], at, shape) for i in step.args),
        result=float(values(one.slot)[at]),
        exact=nearest_float64(np.asarray(shadow[one.slot])[at]),
        error=one.error,
        place=step.place,
    )


def _element_at(x: High, index: tuple[int, ...], shape: tuple[int, ...]) -> float:
    """The element of an argument that meets the element of the result by broadcasting; nan if there
    is none."""
    x = np.asarray(x)
    met = _place(x.shape, index, shape)
    return float("nan") if met is None else nearest_float64(x[met])


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


def _relevant(execution: Execution, needed: Sequence[int]) -> dict[int, Array]:
    """For each slot, the elements (True) that the traced entry depends on. A missing slot counts as
    a whole. Only operations that are known to work element by element narrow the elements down."""
    if execution.target is None:
        return {}
    wanted = np.zeros(_shape(execution, execution.target), dtype=np.bool_)
    wanted.reshape(-1)[execution.place] = True
    masks: dict[int, Array | None] = {execution.target: wanted}  # None: whole
    for place in reversed(needed):
        step = execution.steps[place]
        mask = masks.get(step.results[0]) if step.elementwise and len(step.results) == 1 else None
        for slot in step.args:
            part = None if mask is None else _of_argument(_shape(execution, slot), mask)
            before = masks.get(slot, part)
            masks[slot] = None if part is None or before is None else before | part
    return {slot: mask for slot, mask in masks.items() if mask is not None}


def _of_argument(shape: tuple[int, ...], mask: Array) -> Array | None:
    """The elements of an argument with this shape that the wanted results depend on; None for
    all."""
    if not broadcasts(shape, mask.shape):
        return None
    summed = np.asarray(np.any(mask, axis=tuple(range(mask.ndim - len(shape)))))
    once = tuple(i for i, n in enumerate(shape) if n == 1)
    return np.asarray(np.any(summed, axis=once, keepdims=True))


def _shape(execution: Execution, slot: int) -> tuple[int, ...]:
    return execution.slots[slot].shape

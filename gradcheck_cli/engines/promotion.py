"""Which executed operations spoil a derivative: local errors, and the proof by promotion.

The local error of an operation is what it does wrong by itself: its exact inputs, rounded to the
dtype, through this one operation, against the exact result (Panchekha et al., PLDI 2015, section
4.3). An operation that is wrong because of its inputs has none.

The proof: an operation is *done exactly* when its result is replaced by the exact one, kept in high
precision. An operation that takes such a number runs in high precision on it, its other inputs as
they are in the run, and rounds its result to the digits of the dtype. A result that the dtype has
no number for (too large, or too small for all its digits) stays as it is: it left the range because
of the operation that first gave such a number, and not by its own doing. Operations that only move
numbers hand them on. All others run in the dtype as before. What is done exactly and makes the
traced entry right is the cause. (Rubio-Gonzalez et al., Precimonious, SC 2013, lower precisions the
same way; Fevotte and Lathuiliere, Verrou, look for the smallest set by delta debugging.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.engines.execution import Execution, High, Step
from gradcheck_cli.engines.shadow import (
    MOST_BITS,
    Numbers,
    differences,
    fits,
    given,
    is_finite,
    numbers_for,
    shadow,
    shaped,
    sharp,
    to_float,
)

# Functions of a library are right to 1 or 2 ulps, its backward kernels round two or three times.
ROUNDING = 4.0

# The part of the digits that may still be missing for an entry to count as repaired: what the
# rounding of other operations costs remains, and the condition of the rest. It is where judging
# begins to warn.
REMAINING = 0.25

SHOWN = 64
SINGLE = 4  # operations tried alone
SPOILERS = 2  # operations that round alone
RUNS = 9  # of the recorded list, from the first operation that changes, at most


@dataclass(frozen=True, slots=True)
class Proof:
    """What `Trace` says of operations; `note` says why there is nothing, where something is
    missing."""

    operations: tuple[Operation, ...] = ()
    culprits: tuple[int, ...] = ()
    repaired: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """An operation with a local error: its place among the steps; `severe` where it loses more than
    a quarter of the digits. It is a `victim` where an exact input is no number of the dtype: then
    not it left the range, but what gave the input. It `inherits` where its result is off by far
    more than its own error: what came in was wrong already."""

    place: int
    operation: Operation
    severe: bool
    victim: bool
    inherits: bool


def prove(execution: Execution, target: float, format: FloatFormat) -> Proof:
    """The operations of the run with their local errors, and those that spoil the traced entry.

    `format` is that of the dtype that is judged. Raises what a kernel raises in float64, and
    ValueError where an exact operation is not the engine's.
    """
    if execution.target is None:
        return Proof(note="no derivative arrives at the traced entry")
    needed = execution.needed()
    if not needed:
        return Proof()  # the derivative is a constant
    numbers = numbers_for(execution, needed)
    if not numbers.balls and format.name == "float64":
        return Proof(note="the run is too large to be done again in more than float64")
    exact = shadow(execution, needed, numbers)
    if numbers.balls and not sharp(exact[execution.target], execution.place, format):
        numbers = Numbers(MOST_BITS)
        exact = shadow(execution, needed, numbers)
    found = list(_local_errors(execution, needed, exact))
    if len(found) > SHOWN:
        worst = sorted(found, key=lambda one: (one.severe, one.operation.error))[-SHOWN:]
        found = sorted(worst, key=lambda one: one.place)
    search = _Search(execution, exact, numbers, target, format)
    culprits, repaired = search.smallest(found)
    # What left the range below is off by less than the smallest number: said only where it matters.
    shown = [i for i, one in enumerate(found) if i in culprits or one.operation.error > ROUNDING]
    operations = tuple(found[i].operation for i in shown)
    return Proof(operations, tuple(shown.index(i) for i in culprits), repaired)


def _local_errors(
    execution: Execution, needed: Sequence[int], exact: Mapping[int, High]
) -> Iterator[_Found]:
    for place in needed:
        step = execution.steps[place]
        for slot, result in zip(step.results, _alone(execution, step, exact), strict=True):
            format = execution.slots[slot].format
            if step.moves and format is not None:
                continue
            errors, lost = _errors(exact[slot], result, format)
            if not errors.size or max(errors.max(), lost.max()) <= ROUNDING:
                continue
            bits = 1.0 if format is None else 2.0 ** (REMAINING * format.bits)
            # what was lost counts first: an underflow is large there and half an ulp in the other
            order = np.where(lost > bits, np.inf, lost) + np.where(errors > bits, errors, 0)
            index = np.unravel_index(int(np.argmax(order)), errors.shape)
            severe = bool(max(errors[index], lost[index]) > bits)
            shown = _operation(execution, step, slot, index, float(errors[index]), exact)
            victim = _out_of_range(execution, step, shown.index, errors.shape, exact)
            yield _Found(
                place,
                shown,
                severe,
                victim,
                severe
                and _inherits(execution, slot, index, max(errors[index], lost[index]), exact),
            )


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


def _alone(execution: Execution, step: Step, exact: Mapping[int, High]) -> list[Array]:
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
        exact=float(to_float(np.asarray(exact[slot])[at])),
        error=error,
    )


def _met(x: High, index: tuple[int, ...], shape: tuple[int, ...]) -> float:
    """The one element of an argument that meets the element of the result by broadcasting; nan
    where there is none."""
    x = np.asarray(x)
    met = _place(x.shape, index, shape)
    return float("nan") if met is None else float(to_float(x[met]))


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


class _Search:
    """Runs the recorded list again with some operations done exactly."""

    def __init__(
        self,
        execution: Execution,
        exact: Mapping[int, High],
        numbers: Numbers,
        target: float,
        format: FloatFormat,
    ) -> None:
        self._execution = execution
        self._exact = exact
        self._numbers = numbers
        self._target = target
        self._format = format
        self._needed = execution.needed()
        self._runs = 0
        assert execution.target is not None
        before = self._error(float(execution.values(execution.target).ravel()[execution.place]))
        all_digits = 2.0**format.bits
        self._enough = max(ROUNDING, min(before, all_digits) ** REMAINING)
        self._wrong = before > ROUNDING

    def _error(self, value: float) -> float:
        if value == self._target:
            return 0.0
        if not np.isfinite(value):
            return float("inf")
        return abs(value - self._target) / float(self._format.ulp(self._target))

    def smallest(self, found: Sequence[_Found]) -> tuple[tuple[int, ...], float | None]:
        """Places in `found` that repair the entry, and its error then; nothing where none do, or
        where there is nothing to repair (the entry is right, or the dtype has no number for it)."""
        reachable = np.isfinite(self._target) and np.isfinite(self._format.round(self._target))
        if not self._wrong or not reachable or not found:
            return (), None
        causes = [i for i, one in enumerate(found) if one.severe and not one.victim]
        # The last operation always repairs alone; where what came into it was wrong, it proves
        # nothing.
        own = [i for i in causes if not found[i].inherits] or causes
        for i in own[:SINGLE]:
            error = self._repaired(found, [i])
            if error is not None:
                return (i,), error
        severe = [i for i, one in enumerate(found) if one.severe]
        tried = causes if causes == own and len(causes) == 1 else []
        for every in (causes, severe, list(range(len(found)))):
            if every and every != tried:
                tried = every
                error = self._repaired(found, every)
                if error is not None:
                    kept = [] if own == causes else self._spoilers(found, own)
                    return self._shrunk(found, every, kept, error)
        return (), None

    def _spoilers(self, found: Sequence[_Found], own: Sequence[int]) -> list[int]:
        """The first of those that spoil the entry when they round and nothing else does."""
        for i in own[:SPOILERS]:
            self._runs += 1
            if self._error(self._rounded(found[i].place)) > self._enough:
                return [i]
        return []

    def _rounded(self, place: int) -> float:
        """The entry with every operation done exactly but for the one at `place`."""
        execution = self._execution
        step = execution.steps[place]
        changed: dict[int, High] = {
            slot: self._numbers.lift(result)
            for slot, result in zip(step.results, _alone(execution, step, self._exact), strict=True)
        }
        for later in self._needed:
            step = execution.steps[later]
            if later > place and any(slot in changed for slot in step.args):
                args = [changed.get(slot, self._exact[slot]) for slot in step.args]
                changed.update(zip(step.results, self._numbers.apply(step, args), strict=True))
        slot = execution.target
        assert slot is not None
        return float(to_float(changed.get(slot, self._exact[slot])).ravel()[execution.place])

    def _shrunk(
        self, found: Sequence[_Found], every: list[int], kept: Sequence[int], error: float
    ) -> tuple[tuple[int, ...], float]:
        """Leaves out what it can but for `kept`, half of the rest at a time, as long as runs are
        left. What comes late is left out first: the early ones are the causes."""
        chosen = list(every)
        size = max(len(chosen) // 2, 1)
        end = len(chosen)
        while self._runs < RUNS and len(chosen) > 1:
            left_out = set(chosen[max(end - size, 0) : end]).difference(kept)
            rest = [i for i in chosen if i not in left_out]
            again = self._repaired(found, rest) if rest and rest != chosen else None
            if again is not None:
                chosen, error = rest, again
            end -= size
            if end <= 0:
                if size == 1:
                    break
                size, end = max(size // 2, 1), len(chosen)
        return tuple(chosen), error

    def _repaired(self, found: Sequence[_Found], chosen: Sequence[int]) -> float | None:
        """The entry's error with these done exactly, or None where that does not repair it."""
        self._runs += 1
        error = self._error(self._entry({found[i].place for i in chosen}))
        return error if error <= self._enough else None

    def _entry(self, promoted: Collection[int]) -> float:
        execution = self._execution
        changed: dict[int, High] = {}  # wide numbers
        again: dict[int, object] = {}  # other numbers of the dtype than in the run
        for place in self._needed:
            step = execution.steps[place]
            if place in promoted:
                changed.update((slot, self._exact[slot]) for slot in step.results)
            elif any(slot in changed for slot in step.args):
                self._wide(step, changed, again)
            elif any(slot in again for slot in step.args):
                args = [again.get(i, execution.slots[i].native) for i in step.args]
                again.update(zip(step.results, step.low(args), strict=True))
        slot = execution.target
        assert slot is not None
        if slot in changed:
            return float(to_float(changed[slot]).ravel()[execution.place])
        native = again.get(slot, execution.slots[slot].native)
        return float(execution.conversions.numpy(native).ravel()[execution.place])

    def _wide(self, step: Step, changed: dict[int, High], again: dict[int, object]) -> None:
        """The operation in high precision; of the results, what fits is rounded to the dtype."""
        execution = self._execution
        args = []
        for slot in step.args:
            if slot in changed:
                args.append(changed[slot])
            elif slot in again:
                args.append(self._numbers.lift(execution.conversions.numpy(again[slot])))
            else:
                args.append(given(execution, slot, self._numbers))
        for slot, value in zip(step.results, self._numbers.apply(step, args), strict=True):
            value = shaped(value, execution, slot)
            format = execution.slots[slot].format
            if step.moves and format is not None:
                changed[slot] = value
                continue
            kept = np.zeros(np.shape(value), np.bool_) if format is None else ~fits(value, format)
            near = to_float(value)
            rounded = near if format is None else format.round(near)
            if kept.any():
                wide = np.array(self._numbers.lift(rounded))
                wide[kept] = np.asarray(value)[kept]
                changed[slot] = wide
            else:
                again[slot] = execution.conversions.native(rounded, execution.slots[slot].native)

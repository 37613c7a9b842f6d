"""Every executed operation by itself: in the dtype, on its exact inputs, rounded.

Most of them do nothing wrong, which is soon seen; of small arrays, many together, since to look at
a few numbers takes as long as to look at a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.engines.execution import Native, Step
from gradcheck_cli.engines.shadow import Shadow

# Functions of a library are right to 1 or 2 ulps, its backward kernels round two or three times.
ROUNDING = 4.0

TOGETHER = 1 << 14  # numbers: the arrays that are made of so many stay in a processor's cache

Compared = tuple[Array, Array, FloatFormat | None]
"""Exact numbers in float64, others beside them, and the format of these."""


class Alone:
    """The operations of a run, each on the numbers of a shadow, rounded to the dtype."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self._execution = shadow.execution
        self._same: dict[int, bool] = {}  # whether the run has the rounded exact numbers itself
        self._kept: dict[int, list[Array]] = {}  # the results of steps that are in doubt

    def results(self, place: int) -> list[Array]:
        """What the operation gives."""
        kept = self._kept.get(place)
        if kept is None:
            step = self._execution.steps[place]
            self._compare_arguments([step])
            kept = self._results(step)
        return kept

    def doubtful(self, needed: Sequence[int]) -> list[tuple[int, int]]:
        """Which steps do not plainly round as they should, and which of their results; but for
        those that only move numbers."""
        execution = self._execution
        steps = {place: execution.steps[place] for place in needed}
        self._compare_arguments(steps.values())
        found: list[tuple[int, int]] = []
        for places in _together(needed, lambda place: self._size(steps[place])):
            asked = [
                (place, k)
                for place in places
                for k, slot in enumerate(steps[place].results)
                if not steps[place].moves or execution.slots[slot].format is None
            ]
            made = {place: self._results(steps[place]) for place, _ in asked}
            compared = [self._compared(steps[p].results[k], made[p][k]) for p, k in asked]
            for (place, k), right in zip(asked, each(plainly_right, compared), strict=True):
                if not right:
                    found.append((place, k))
                    self._kept[place] = made[place]
        return found

    def _size(self, step: Step) -> int:
        return max((self._execution.slots[slot].size for slot in step.results), default=0)

    def _compared(self, slot: int, others: Array) -> Compared:
        return self.shadow.near(slot), others, self._execution.slots[slot].format

    def _compare_arguments(self, steps: Iterable[Step]) -> None:
        """Finds out which arguments of the steps the run has rounded rightly."""
        execution = self._execution
        slots = dict.fromkeys(slot for step in steps for slot in step.args)
        unknown = [
            slot
            for slot in slots
            if slot not in self._same
            and not isinstance(execution.slots[slot].native, (bool, int, float))
        ]
        for part in _together(unknown, lambda slot: execution.slots[slot].size):
            compared = [self._compared(slot, execution.values(slot)) for slot in part]
            self._same.update(zip(part, each(_rounded_to, compared), strict=True))

    def _results(self, step: Step) -> list[Array]:
        execution = self._execution
        if all(self._same.get(slot, True) for slot in step.args):
            return [execution.values(slot) for slot in step.results]
        given = [self._rounded(slot) for slot in step.args]
        return [np.asarray(execution.conversions.numpy(y)) for y in step.low(given)]

    def _rounded(self, slot: int) -> Native:
        native = self._execution.slots[slot].native
        if self._same.get(slot, True):
            return native
        near, format = self.shadow.near(slot), self._execution.slots[slot].format
        rounded = near if format is None else format.round(near)
        return self._execution.conversions.native(rounded, native)


def each(
    holds: Callable[[Array, Array, FloatFormat | None], Array], compared: Sequence[Compared]
) -> list[bool]:
    """Of each pair of arrays, whether it holds for all elements."""
    found = [True] * len(compared)
    for format in {format for *_, format in compared}:
        mine = [i for i, (*_, other) in enumerate(compared) if other is format]
        ends = np.cumsum([compared[i][0].size for i in mine])
        exact, others = (
            _joined([compared[i][0] for i in mine]),
            _joined([compared[i][1] for i in mine]),
        )
        failing = np.flatnonzero(~holds(exact, others, format))
        for which in np.unique(np.searchsorted(ends, failing, side="right")):
            found[mine[which]] = False
    return found


def _joined(arrays: Sequence[Array]) -> Array:
    flat = [array.ravel() for array in arrays]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _rounded_to(exact: Array, others: Array, format: FloatFormat | None) -> Array:
    """Which of the others are the exact numbers, rounded; a nan is one."""
    rounded = exact if format is None else format.round(exact)
    same = rounded == others
    return np.asarray(same if same.all() else same | ((rounded != rounded) & (others != others)))


def plainly_right(exact: Array, others: Array, format: FloatFormat | None) -> Array:
    """Which are normal numbers within a few ulps; of indices and masks, which are the same."""
    if format is None:
        return np.asarray(exact == others)
    size = np.abs(exact)
    # an ulp is more than 2^-bits of the number, and `exact` is half an ulp of float64 off at most
    right = np.abs(exact - others) <= (ROUNDING - 1) * 2.0**-format.bits * size
    right &= size >= format.smallest_normal
    right &= size <= format.largest
    return np.asarray(right)


def _together(items: Sequence[int], size: Callable[[int], int]) -> Iterator[list[int]]:
    """The items in order, as many at a time as are of a fair size together."""
    part: list[int] = []
    total = 0
    for item in items:
        part.append(item)
        total += size(item)
        if total >= TOGETHER:
            yield part
            part, total = [], 0
    if part:
        yield part

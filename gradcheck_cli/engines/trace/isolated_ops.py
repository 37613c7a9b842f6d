"""Every executed operation in isolation: in the dtype, on its exact inputs, rounded.

Most operations do nothing wrong, which is quickly seen. Small arrays are compared together, because
comparing a few numbers takes as long as comparing a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.engines.execution import Native, Step
from gradcheck_cli.engines.trace.shadow import Shadow

TOGETHER = 1 << 14  # numbers: the arrays that are made of so many stay in a processor's cache


@dataclass(frozen=True, slots=True)
class Pairs:
    """Exact numbers in float64 and the numbers to compare, all of one format (None: indices and
    masks), joined. Operation i ends at `ends[i]`."""

    exact: Array
    others: Array
    ends: Array
    format: FloatFormat | None

    def part(self, i: int) -> slice:
        return slice(self.ends[i - 1] if i else 0, self.ends[i])

    def without(self, holds: Array) -> Iterator[tuple[int, Array]]:
        """The operations for which the condition fails in some element, and the elements."""
        failing = np.flatnonzero(~holds)
        if not failing.size:
            return
        ends = np.searchsorted(failing, self.ends)
        starts = np.concatenate([[0], ends[:-1]])
        for i in np.flatnonzero(ends > starts).tolist():
            yield i, failing[starts[i] : ends[i]] - self.part(i).start


class IsolatedOps:
    """The operations of a run, each on the numbers of a shadow, rounded to the dtype."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self._execution = shadow.execution
        self._compared: set[int] = set()  # slots
        self._other: dict[int, Array] = {}  # the exact numbers, rounded, where the run has others
        self._kept: dict[int, list[Array]] = {}  # the results of steps that are in doubt

    def results(self, place: int) -> list[Array]:
        """The results of the operation."""
        kept = self._kept.get(place)
        if kept is None:
            step = self._execution.steps[place]
            self._compare(step.args)
            kept = self._results(step)
        return kept

    def doubtful(self, needed: Sequence[int]) -> list[tuple[int, int, Array]]:
        """The steps that may not round as they should, with the result and its elements. Steps that
        only move numbers are left out."""
        slots = self._execution.slots
        steps = {place: self._execution.steps[place] for place in needed}
        asked = [
            (place, k)
            for place, step in steps.items()
            for k, slot in enumerate(step.results)
            if not step.moves or slots[slot].format is None
        ]
        self._compare(slot for place, _ in asked for slot in steps[place].args)
        places: list[tuple[int, int, Array]] = []
        for part in _groups(asked, lambda one: slots[steps[one[0]].results[one[1]]].size):
            made = {place: self._results(steps[place]) for place, _ in part}
            beside = {steps[place].results[k]: made[place][k] for place, k in part}
            where = dict(zip(beside, part, strict=True))
            for keys, pairs in self._pairs(beside):
                right = _plainly_right(pairs.exact, pairs.others, pairs.format)
                for i, at in pairs.without(right):
                    place, k = where[keys[i]]
                    places.append((place, k, at))
                    self._kept[place] = made[place]
        return sorted(places, key=lambda one: one[:2])

    def _compare(self, slots: Iterable[int]) -> None:
        """Finds where the run differs from the exact numbers, rounded."""
        execution = self._execution
        unknown = [
            slot
            for slot in dict.fromkeys(slots)
            if slot not in self._compared
            and not isinstance(execution.slots[slot].native, (bool, int, float))
        ]
        self._compared.update(unknown)
        for part in _groups(unknown, lambda slot: execution.slots[slot].size):
            for keys, pairs in self._pairs({slot: execution.values(slot) for slot in part}):
                format = pairs.format
                rounded = pairs.exact if format is None else format.round(pairs.exact)
                for i, _ in pairs.without(_equal(rounded, pairs.others)):
                    shape = self.shadow.nearest_floats(keys[i]).shape
                    self._other[keys[i]] = rounded[pairs.part(i)].reshape(shape)

    def _pairs(self, beside: Mapping[int, Array]) -> Iterator[tuple[list[int], Pairs]]:
        """The exact numbers of slots, and the numbers to compare them with, separately for each
        format."""
        slots, near = self._execution.slots, self.shadow.nearest_floats
        for format in {slots[slot].format for slot in beside}:
            mine = [slot for slot in beside if slots[slot].format is format]
            exact = _joined([near(slot) for slot in mine])
            others = _joined([beside[slot] for slot in mine])
            ends = np.cumsum([near(slot).size for slot in mine])
            yield mine, Pairs(exact, others, ends, format)

    def _results(self, step: Step) -> list[Array]:
        execution, other = self._execution, self._other
        if not any(slot in other for slot in step.args):
            return [execution.values(slot) for slot in step.results]
        given = [self._rounded(slot) for slot in step.args]
        return [np.asarray(execution.conversions.numpy(y)) for y in step.low(given)]

    def _rounded(self, slot: int) -> Native:
        native = self._execution.slots[slot].native
        rounded = self._other.get(slot)
        return native if rounded is None else self._execution.conversions.native(rounded, native)


def _joined(arrays: Sequence[Array]) -> Array:
    flat = [array.ravel() for array in arrays]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _equal(some: Array, others: Array) -> Array:
    """Which numbers are equal; nan equals nan."""
    same = np.asarray(some == others)
    return same if same.all() else same | ((some != some) & (others != others))


def _plainly_right(exact: Array, others: Array, format: FloatFormat | None) -> Array:
    """Which numbers are normal and within a few ulps; for indices and masks, which are equal."""
    if format is None:
        return np.asarray(exact == others)
    size = np.abs(exact)
    # an ulp is more than 2^-bits of the number, and `exact` is half an ulp of float64 off at most
    right = np.abs(exact - others) <= (FEW_ULPS - 1) * 2.0**-format.bits * size
    right &= size >= format.smallest_normal
    right &= size <= format.largest
    return np.asarray(right)


Item = TypeVar("Item")


def _groups(items: Sequence[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """The items in order, in groups of a reasonable total size."""
    part: list[Item] = []
    total = 0
    for item in items:
        part.append(item)
        total += size(item)
        if total >= TOGETHER:
            yield part
            part, total = [], 0
    if part:
        yield part

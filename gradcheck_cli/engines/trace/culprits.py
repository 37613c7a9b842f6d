"""Finds the executed operations that spoil a derivative, by local errors and the proof by
promotion.

The proof: an operation is *done exactly* if its result is replaced by the exact one in high
precision. An operation that takes such a number runs on it in high precision, with its other inputs
as in the run, and its result is rounded to the digits of the dtype. A result outside of the range
of the dtype (too large, or too small for all digits) is not rounded: the operation that first left
the range is responsible, not those that follow it. Operations that only move numbers pass them on.
All others run in the dtype as before. The cause is the operation that, done exactly, makes the
traced entry right. (Rubio-Gonzalez et al., Precimonious, SC 2013, lower precisions in the same way;
Fevotte and Lathuiliere, Verrou, search for the smallest set by delta debugging.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import FEW_ULPS, NOTE_BITS, SAME_ERROR
from gradcheck_cli.engines.execution import Execution, High, Step
from gradcheck_cli.engines.trace.isolated_ops import IsolatedOps
from gradcheck_cli.engines.trace.local_errors import Found, described, local_errors
from gradcheck_cli.engines.trace.shadow import (
    FIRST_BITS,
    FLOAT64,
    MOST_AT_ALL,
    MOST_BITS,
    MOST_IN_BALLS,
    Numbers,
    exact_number,
    fits,
    shadow,
    shaped,
    sharp,
    to_float,
    work,
)

SHOWN = 64  # operations, but for the culprits
SINGLE = 3  # operations tried alone
SPOILERS = 2  # operations that round alone
# Of the recorded list, from the first operation that changes, at most: with the recording and the
# two traced looks that makes nine.
RUNS = 6


@dataclass(frozen=True, slots=True)
class Proof:
    """The operations for a `Trace`; `note` says why something is missing. `enclosed`: balls alone
    give the same wrong number. If balls give another number, that proves nothing: a framework's
    constants are rounded, and after cancellation that may be all that is left."""

    operations: tuple[Operation, ...] = ()
    culprits: tuple[int, ...] = ()
    repaired: float | None = None
    note: str = ""
    exactly: float | None = None
    enclosed: bool = False


Known = dict[Numbers, IsolatedOps]
"""What is known exactly of a run already. Proofs of one run share it: most of what a derivative
needs the output needs, too."""


def prove(
    execution: Execution, target: float, format: FloatFormat, known: Known | None = None
) -> Proof:
    """The operations of the run with their local errors, and those that spoil the traced entry.

    `format` is that of the judged dtype. `known` collects shared results. Raises what a kernel
    raises in float64, and ValueError if an exact operation is not the engine's.
    """
    if execution.target is None:
        return Proof(note="no derivative arrives at the traced entry", exactly=0.0, enclosed=True)
    needed = execution.needed()
    if not needed:
        constant = float(execution.values(execution.target).ravel()[execution.place])
        return Proof(exactly=constant, enclosed=True)
    size = work(execution, needed)
    if size > (MOST_IN_BALLS if format.name == "float64" else MOST_AT_ALL):
        return Proof(note="the run is too large to be repeated in higher precision")
    beside = _Beside(execution, needed, {} if known is None else known)
    isolated = _exactly(beside, target, format, size <= MOST_IN_BALLS)
    found = local_errors(execution, needed, isolated)
    search = _Search(execution, needed, isolated, target, format)
    culprits, repaired = search.smallest(found)
    shown = _places_to_show(found, culprits, search.wrong)
    operations = tuple(described(isolated.shadow, found[i]) for i in shown)
    places = tuple(shown.index(i) for i in culprits)
    note = "" if culprits else search.unexplained
    if not note:
        return Proof(operations, places, repaired)
    entry = float(execution.values(execution.target).ravel()[execution.place])
    same = abs(search.exactly - entry) <= SAME_ERROR * abs(entry - target)
    enclosed = same and isolated.shadow.encloses(needed)
    return Proof(operations, places, repaired, note, search.exactly, enclosed)


def _places_to_show(found: Sequence[Found], culprits: Collection[int], wrong: bool) -> list[int]:
    """The places of the culprits and of the worst other operations, in order.

    An operation that underflows is off by less than the smallest number, and one without a value
    may be masked. Both are only shown if they matter.
    """
    others = [
        i
        for i, one in enumerate(found)
        if i not in culprits and one.error > FEW_ULPS and (wrong or not one.singular)
    ]
    others.sort(key=lambda i: (found[i].victim, -found[i].error, i))
    return sorted([*culprits, *others[: max(SHOWN - len(culprits), 0)]])


@dataclass(frozen=True, slots=True)
class _Beside:
    """The inputs of the traced entry in another number system."""

    execution: Execution
    needed: Sequence[int]
    known: Known

    def run(self, numbers: Numbers) -> IsolatedOps:
        if numbers in self.known:
            self.known[numbers].shadow.run(self.needed)
        else:
            self.known[numbers] = IsolatedOps(shadow(self.execution, self.needed, numbers))
        return self.known[numbers]


def _exactly(beside: _Beside, target: float, format: FloatFormat, small: bool) -> IsolatedOps:
    """The exact values, in the cheapest number system that suffices.

    float64 suffices if its traced entry is the target and a normal number, because its roundings do
    not matter then (0 may have underflowed in float64, too). It must suffice if the run is too
    large for balls.
    """
    traced, place = beside.execution.target, beside.execution.place
    assert traced is not None
    if format.name != "float64":
        isolated = beside.run(FLOAT64)
        entry = float(isolated.shadow.nearest_floats(traced).ravel()[place])
        sure = abs(target) >= format.smallest_normal and _ulps(entry, target, format) <= FEW_ULPS
        if sure or not small:
            return isolated
    isolated = beside.run(Numbers(FIRST_BITS))
    if not sharp(isolated.shadow[traced], place, format):
        isolated = beside.run(Numbers(MOST_BITS))
    return isolated


def _ulps(value: float, target: float, format: FloatFormat) -> float:
    if value == target:
        return 0.0
    if not np.isfinite(value):
        return float("inf")
    return abs(value - target) / float(format.ulp(target))


class _Search:
    """Repeats the recorded run with some operations done exactly."""

    def __init__(
        self,
        execution: Execution,
        needed: Sequence[int],
        isolated: IsolatedOps,
        target: float,
        format: FloatFormat,
    ) -> None:
        self._execution = execution
        self._needed = needed
        self._isolated = isolated
        self._exact = isolated.shadow
        self._numbers = isolated.shadow.numbers
        self._target = target
        self._format = format
        self._runs = 0
        assert execution.target is not None
        before = self._error(float(execution.values(execution.target).ravel()[execution.place]))
        self.wrong = before > FEW_ULPS
        self._reachable = bool(np.isfinite(target) and np.isfinite(format.round(target)))
        self.exactly = float(self._exact.nearest_floats(execution.target).ravel()[execution.place])
        self._enough = self._limit(min(before, 2.0**format.bits))

    def _limit(self, before: float) -> float:
        """The error up to which the entry counts as repaired.

        A quarter of the lost digits may still be missing, because other operations round and the
        rest has a condition number. The constants of a framework are rounded, too, which exact
        arithmetic cannot repair; the roundings of operations may cost several times as much.
        """
        limit = max(FEW_ULPS, float(before**NOTE_BITS))
        constants = self._error(self.exactly)
        return max(limit, FEW_ULPS * constants) if constants <= before**0.5 else limit

    @property
    def unexplained(self) -> str:
        """The message if nothing repairs the entry: even exact arithmetic may not."""
        if not (self.wrong and self._reachable) or self._error(self.exactly) <= self._enough:
            return ""
        how = "exact arithmetic" if self._numbers.balls else "float64"
        return (
            f"the same operations in {how} give {self.exactly:.9g}, so computing them exactly is "
            "not enough"
        )

    def _error(self, value: float) -> float:
        return _ulps(value, self._target, self._format)

    def smallest(self, found: Sequence[Found]) -> tuple[tuple[int, ...], float | None]:
        """Places in `found` that repair the entry, and its error then. Nothing if none do, or if
        there is nothing to repair (the entry is right, or outside of the range of the dtype)."""
        if not self.wrong or not self._reachable:
            return (), None
        usable = [i for i, one in enumerate(found) if not one.singular]
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
        for every in (causes, severe, usable):
            if every and every != tried:
                tried = every
                error = self._repaired(found, every)
                if error is not None:
                    kept = [] if own == causes else self._spoilers(found, own)
                    return self._shrunk(found, every, kept, error)
        return (), None

    def _spoilers(self, found: Sequence[Found], own: Sequence[int]) -> list[int]:
        """The first operations that spoil the entry if they alone round."""
        for i in own[: min(SPOILERS, RUNS - self._runs)]:
            self._runs += 1
            if self._error(self._rounded(found[i].place)) > self._enough:
                return [i]
        return []

    def _rounded(self, place: int) -> float:
        """The entry with every operation done exactly, except the one at `place`."""
        execution = self._execution
        results = execution.steps[place].results
        changed: dict[int, High] = {
            slot: self._numbers.lift(result)
            for slot, result in zip(results, self._isolated.results(place), strict=True)
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
        self, found: Sequence[Found], every: list[int], kept: Sequence[int], error: float
    ) -> tuple[tuple[int, ...], float]:
        """Removes as many as possible, except `kept`: half of the rest at a time, while runs are
        left. Late operations are removed first, because early ones are the causes."""
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

    def _repaired(self, found: Sequence[Found], chosen: Sequence[int]) -> float | None:
        """The error of the entry with these operations done exactly; None if that does not repair
        it, or no runs are left."""
        if self._runs >= RUNS:
            return None
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
        """Runs the operation in high precision. Results in the range of the dtype are rounded to
        it."""
        execution = self._execution
        args = []
        for slot in step.args:
            if slot in changed:
                args.append(changed[slot])
            elif slot in again:
                args.append(self._numbers.lift(execution.conversions.numpy(again[slot])))
            else:
                args.append(exact_number(execution, slot, self._numbers))
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

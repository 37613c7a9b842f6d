"""A recorded run repeated in numbers with more digits: every array x gets its exact x*.

Inputs and constants are the rounded ones. Every operation, also of the derivative, runs on exact
numbers: float64 if it suffices, otherwise balls with enough bits to keep what is absorbed or
cancelled in float64, and without overflow in exponentials. An operation without an enclosure, or
one that balls cannot decide, runs its float64 kernel on their midpoints. Runs that are too large
for balls always use float64. (Sanchez-Stern et al., Finding root causes of floating point error,
PLDI 2018; the derivative's own operations are added here.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.execution import Execution, High, Step, as_high
from gradcheck_cli.engines.trace.exact_kernels import is_finite, structural

# First so many: 1e-76 beside 1 is not lost, and a ball costs about as much as with 64. Then, where
# the traced entry is not sharp, enough for the square of the smallest float64 beside 1 (2150).
FIRST_BITS = 512
MOST_BITS = 4096

# One run in balls takes about 0.2 seconds then; float64 kernels need no more than the engine's own.
MOST_IN_BALLS = 100_000

LARGEST = float(np.finfo(np.float64).max)

# The list is run again up to ten times, and every array of it kept: about a second each, and a
# gigabyte.
MOST_AT_ALL = 20_000_000


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number system: balls with this many bits, or float64 (None)."""

    bits: int | None

    @property
    def balls(self) -> bool:
        return self.bits is not None

    def lift(self, values: Array) -> High:
        """Numbers of a run as exact numbers."""
        values = as_high(np.asarray(values))
        if not self.balls or values.dtype.kind != "f":
            return values
        from reference_engine.arithmetic.arbs import objects

        return objects(values)

    def apply(self, step: Step, args: Sequence[High]) -> list[High]:
        """The results of an operation on these numbers. Raises what the kernel raises."""
        enclosed = self.enclosed(step, args)
        return self.by_kernel(step, args) if enclosed is None else enclosed

    def enclosed(self, step: Step, args: Sequence[High]) -> list[High] | None:
        """The results in balls; None if the operation has no enclosure for these arguments."""
        if self.bits is None or step.exact is None:
            return None
        from reference_engine.arithmetic.arbs import NotInBalls, Undecided, precision

        try:
            with precision(self.bits):
                return list(step.exact(args))
        except (NotInBalls, Undecided, TypeError):  # or it does not take these arguments
            return None

    def by_kernel(self, step: Step, args: Sequence[High]) -> list[High]:
        """The results of the float64 kernel on the midpoints of balls."""
        plain: list[Any] = [x if isinstance(x, (int, float)) else to_float(x) for x in args]
        results = step.wide(plain)
        return [self.lift(y) for y in results]


FLOAT64 = Numbers(None)


def work(execution: Execution, needed: Sequence[int]) -> int:
    """About how many numbers one run in another number system computes."""
    total = 0
    slots = execution.slots
    for place in needed:
        step = execution.steps[place]
        total += max([slots[i].size for i in (*step.args, *step.results)], default=0)
    return total


class Shadow:
    """The exact value of every slot that the steps run so far take or give."""

    def __init__(self, execution: Execution, numbers: Numbers) -> None:
        self.execution = execution
        self.numbers = numbers
        self._exact: dict[int, High] = {}
        self._nearest: dict[int, Array] = {}
        self._done: set[int] = set()  # places of steps
        self._unenclosed: set[int] = set()  # of those that a float64 kernel did

    def __getitem__(self, slot: int) -> High:
        return self._exact[slot]

    def __contains__(self, slot: int) -> bool:
        return slot in self._exact

    def nearest_floats(self, slot: int) -> Array:
        """The float64 numbers nearest to those of the slot."""
        if not self.numbers.balls:
            return np.asarray(self._exact[slot])
        if slot not in self._nearest:
            self._nearest[slot] = to_float(self._exact[slot])
        return self._nearest[slot]

    def encloses(self, needed: Sequence[int]) -> bool:
        """Whether all these steps ran in balls, so that no kernel rounded or absorbed."""
        return self.numbers.balls and self._unenclosed.isdisjoint(needed)

    def run(self, needed: Sequence[int]) -> None:
        """Runs the needed steps that have not run yet."""
        exact = self._exact
        for place in needed:
            if place in self._done:
                continue
            self._done.add(place)
            step = self.execution.steps[place]
            for slot in step.args:
                if slot not in exact:
                    exact[slot] = exact_number(self.execution, slot, self.numbers)
            if self._is_exact(step):
                exact.update(
                    (y, exact_number(self.execution, y, self.numbers)) for y in step.results
                )
                continue
            args = [exact[slot] for slot in step.args]
            results = self.numbers.enclosed(step, args)
            if results is None:
                self._unenclosed.add(place)
                results = self.numbers.by_kernel(step, args)
            for slot, value in zip(step.results, results, strict=True):
                chosen = self._is_chosen(slot, value)  # by the numbers of the run, and stays so
                own = exact_number(self.execution, slot, self.numbers) if chosen else value
                exact[slot] = shaped(own, self.execution, slot)

    def _is_chosen(self, slot: int, value: High) -> bool:
        """Whether the slot contains integers: a cast, an order, the place of a maximum; or booleans
        that a cast made of numbers, which are no comparison."""
        if self.execution.slots[slot].format is not None:
            return False
        kind = self.execution.values(slot).dtype.kind
        return kind in "iu" or (kind == "b" and np.asarray(value).dtype.kind == "O")

    def _is_exact(self, step: Step) -> bool:
        """Whether the step only has integers, booleans and random keys, which are exact in the
        run."""
        slots = self.execution.slots
        return all(slots[i].format is None for i in (*step.args, *step.results))


def shadow(execution: Execution, needed: Sequence[int], numbers: Numbers) -> Shadow:
    """The needed steps, repeated in these numbers."""
    made = Shadow(execution, numbers)
    made.run(needed)
    return made


def sharp(x: High, place: int, format: FloatFormat) -> bool:
    """Whether the ball determines all digits of the format."""
    one = np.asarray(x).ravel()[place]
    if isinstance(one, (np.generic, float, int)) or not one.is_finite():
        return True
    return float(one.rad()) <= float(format.ulp(abs(float(one.mid())))) * 2.0**-8


def exact_number(execution: Execution, slot: int, numbers: Numbers) -> High:
    """The number of the run itself as an exact number."""
    native = execution.slots[slot].native
    if isinstance(native, (int, float)):
        return native
    values = numbers.lift(execution.values(slot))
    return structural(values) if execution.slots[slot].structural else values


def shaped(value: High, execution: Execution, slot: int) -> High:
    """The value, if it has the shape that it has in the run.

    Raises ValueError otherwise, because the exact operation is then not the engine's.
    """
    shape = execution.slots[slot].shape
    if np.shape(value) != shape:
        raise ValueError(f"an exact result has shape {np.shape(value)} and not {shape}")
    return value


def to_float(x: High) -> Array:
    """The nearest float64 numbers (inf beyond their range); booleans and integers unchanged."""
    x = np.asarray(x)
    if x.dtype != object:
        return x
    return np.array([float(one) for one in x.ravel()], np.float64).reshape(x.shape)  # midpoints


def nearest_float64(x: High) -> float:
    """The float64 nearest to one number; the largest or smallest float64 for numbers beyond the
    range."""
    one = np.asarray(x).item()
    near = float(one)
    if isinstance(one, (bool, int, float)):
        return near
    if math.isinf(near) and one.is_finite():
        return math.copysign(LARGEST, near)
    if near == 0 and not one.contains(0):
        return 5e-324 if one > 0 else -5e-324
    return near


def differences(exact: High, rounded: Array) -> Array:
    """A lower bound of |exact - rounded| as float64: for a ball, the distance to its nearer end, so
    that a zero which the ball contains is not an error. nan if either is not finite."""
    exact = np.asarray(exact)
    if exact.dtype != object:
        return np.asarray(np.abs(exact - rounded), np.float64)
    from flint import arb

    from reference_engine.arithmetic.arbs import precision

    with precision(MOST_BITS):
        flat = [
            float((one - arb(other)).abs_lower())
            for one, other in zip(exact.ravel(), rounded.ravel().tolist(), strict=True)
        ]
    return np.array(flat, np.float64).reshape(exact.shape)


def fits(x: High, format: FloatFormat) -> Array:
    """Which numbers the format can hold with all digits: zeros, normal numbers, and nan and
    infinities."""
    x = np.asarray(x)
    size = np.abs(to_float(x))
    inside = (size >= format.smallest_normal) & (np.abs(format.round(size)) <= format.largest)
    if inside.all():
        return np.asarray(inside)
    return np.asarray(~is_finite(x) | (size == 0) & is_zero(x) | inside)


def is_zero(x: High) -> Array:
    """Which numbers are 0 or cannot be distinguished from it. A number below the range of float64
    that can be distinguished is not 0."""
    x = np.asarray(x)
    if x.dtype != object:
        return np.asarray(x == 0)
    return np.array([one.contains(0) for one in x.ravel()], np.bool_).reshape(x.shape)

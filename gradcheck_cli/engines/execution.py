"""The operations that an engine executed, as a straight-line program.

The recorder of an engine records every operation of one run, forward pass and derivative alike,
with its arguments and results. The record can be repeated from any place, in the dtype, in float64
or exactly (`shadow`, `promotion`), without the engine's tape, because all operations of the tape
are part of it. If a derivative chooses its operations by the numbers (torch's `prod`), a repetition
keeps the choice of the first run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from functools import cache
from typing import Any, Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat, as_numbers, joined
from gradcheck_cli.domain.evaluation import Phase
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass

Native = Any
"""An array of the engine's framework, or a Python number."""

High = Any
"""An array of more than the dtype's digits: of `arb` objects, or of float64; booleans and integers
are plain arrays, and a Python number is itself."""


@cache
def _is_complex(dtype: Any) -> bool:
    return "complex" in str(dtype)


ALONE = "alone"
"""What the kernel of such a step is called, after a dot."""


@dataclass(slots=True)
class Slot:
    """A value of the run. `structural`: the array was made from nothing (`zeros_like`), so its
    zeros are not results, and stay 0 when multiplied by infinity."""

    native: Native
    format: FloatFormat | None
    structural: bool = False
    numbers: Array | None = None  # in NumPy's words, once they were requested
    shape: tuple[int, ...] = field(init=False)  # the parts of complex numbers are a last axis
    size: int = field(init=False)

    def __post_init__(self) -> None:
        shape = tuple(getattr(self.native, "shape", ()))
        self.shape = (*shape, 2) if self.is_complex else shape
        self.size = math.prod(self.shape)

    @property
    def is_complex(self) -> bool:
        return _is_complex(getattr(self.native, "dtype", None))


@dataclass(slots=True)
class Step:
    """An executed operation.

    args, results   slots
    low             the operation in its own dtype
    wide            the same kernel on float64 arrays
    exact           the operation on arrays of `arb`, or None where it has none
    moves           it rounds nothing: every number of its result is one that it took, or its
                    negative or size
    kept            its results are stored, and no later operation computes them again for itself
    alone           nothing was compiled with it that makes its arguments, or takes its results
    """

    name: str
    args: tuple[int, ...]
    results: tuple[int, ...]
    low: Callable[[Sequence[Native]], Sequence[Native]]
    wide: Callable[[Sequence[Array]], Sequence[Array]]
    exact: Callable[[Sequence[High]], Sequence[High]] | None
    moves: bool
    node: int | None = None
    phase: Phase = "forward"
    place: Place | None = None  # in the user's file
    elementwise: bool = False  # known to make each element of those that meet it by broadcasting
    of_choices: Callable[[Sequence[High]], Sequence[High]] | None = None  # `exact`, of masks alone
    live: Callable[[Sequence[Native]], Sequence[Native]] | None = None  # `low`, with its derivative
    kept: bool = False
    alone: bool = False


class Conversions(Protocol):
    """Conversions between the arrays of a framework and NumPy."""

    def numpy(self, array: Native) -> Array:
        """Floats exactly, in float64; complex numbers as pairs along a last axis; integers and
        booleans unchanged."""

    def native(self, values: Array, like: Native) -> Native:
        """The numbers, which float64 can hold, as an array with the dtype of `like`."""


class Arrays:
    """The `Conversions` of arrays that are, or can be read as, NumPy arrays."""

    def numpy(self, array: Native) -> Array:
        return as_numbers(np.asarray(array))

    def native(self, values: Array, like: Native) -> Native:
        numbers = joined(values) if _is_complex(like.dtype) else np.asarray(values)
        with np.errstate(all="ignore"):
            return numbers.astype(like.dtype)


@dataclass(slots=True)
class Execution:
    """One recorded run. `target` is the slot of the traced derivative, `place` the flat index of
    the traced entry in it; `output` is the slot of the program's output. The numbers of the slots
    in `deciding` chose a branch or the number of turns of a loop. `is_general`: what is recorded
    should hold for other numbers, too, as far as operations can be recorded so."""

    conversions: Conversions
    slots: list[Slot] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    target: int | None = None
    place: int = 0
    output: int | None = None
    deciding: list[int] = field(default_factory=list)
    is_general: bool = False

    def add_slot(self, native: Native, format: FloatFormat | None) -> int:
        self.slots.append(Slot(native, format))
        return len(self.slots) - 1

    def add_step(self, step: Step) -> None:
        slots = self.slots
        for i in (*step.results, *step.args):
            if slots[i].format is not None:
                break
        else:
            # indices and masks are exact as they are
            step.exact, step.of_choices = None, step.exact
        self.steps.append(step)

    def clear(self) -> None:
        """Forget the run. Steps may refer to it, and it refers to them, so that the numbers would
        use memory until Python looks for such cycles."""
        self.slots.clear()
        self.steps.clear()

    def values(self, slot: int) -> Array:
        """The numbers of a slot as float64, integers or booleans."""
        kept = self.slots[slot]
        if kept.numbers is None:
            plain = isinstance(kept.native, (bool, int, float))
            kept.numbers = np.asarray(kept.native if plain else self.conversions.numpy(kept.native))
        return kept.numbers

    def needed(self, slots: Iterable[int] | None = None) -> list[int]:
        """The places of the steps that these slots, or the target, depend on, in order."""
        wanted = {self.target} if slots is None else set(slots)
        found = []
        for place in range(len(self.steps) - 1, -1, -1):
            step = self.steps[place]
            if not wanted.isdisjoint(step.results):
                wanted.update(step.args)
                found.append(place)
        return found[::-1]

    def values_if_moved(
        self, moved: Mapping[int, Native], needed: Iterable[int]
    ) -> dict[int, Native]:
        """The values of slots if some are `moved`: these, and the results of the `needed` steps."""
        found = dict(moved)
        for place in needed:
            step = self.steps[place]
            if not found.keys().isdisjoint(step.args):
                args = [found.get(slot, self.slots[slot].native) for slot in step.args]
                found.update(zip(step.results, step.low(args), strict=True))
        return found


class Recorder(Protocol):
    """Records the operations that a function executes."""

    execution: Execution

    def record(
        self, function: Callable[..., list[Any]], arrays: Sequence[Native]
    ) -> list[int | None]:
        """Runs the function on the arrays, and returns the slots of its results; None for a result
        that is None, or that no recorded operation computed."""

    def enter(self, node: int) -> None:
        """The following operations belong to this node of the program."""

    def leave(self, node: int, value: Any) -> Any:
        """The node has this value, which is returned."""

    def derive(self) -> None:
        """The following operations are the backward pass."""


class Observer(ABC):
    """A recorder that sees operations while they run for its `node`."""

    node: int | None = None
    backward = False

    def enter(self, node: int) -> None:
        self.node = node

    def leave(self, node: int, value: Any) -> Any:
        """Returns the value: the node of an operation is known when it runs."""
        return value

    def derive(self) -> None:
        self.node = None
        self.backward = True

    @property
    def phase(self) -> Phase:
        return "backward" if self.backward else "forward"

    @abstractmethod
    def recording(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def watch(self, array: Native) -> Native:
        """The array in the form in which the framework must receive it to be known in the
        record."""

    @abstractmethod
    def slot_of(self, array: Native) -> int | None:
        """The slot of an array that was watched, or that a recorded operation computed."""

    def record(
        self, function: Callable[..., list[Any]], arrays: Sequence[Native]
    ) -> list[int | None]:
        with self.recording():
            found = function(*[self.watch(array) for array in arrays])
            return [None if y is None else self.slot_of(y) for y in found]


def as_high(values: Array) -> Array:
    """Floats in float64, including bfloat16."""
    return values if values.dtype.kind in "biuO" else values.astype(np.float64)


def format_named(name: str) -> FloatFormat | None:
    """The format of a dtype by its name; for complex dtypes, the format of their parts. None for
    integers, booleans and others."""
    return FORMATS.get(_OF_PARTS.get(name, name))


_OF_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}

"""Records what the reference engine executes: a number system below its tapes that records every
row.

Tapes and dual numbers run on it unchanged, so every row of the forward pass and of the derivative
rules passes through `Watched.apply` in the order of execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.engines.execution import Arrays, Execution, High, Observer, Step, format_named
from gradcheck_cli.engines.trace.exact_kernels import is_symbol
from reference_engine.op import Op
from reference_engine.traced import Traced, Value

WATCHED_LEVEL = -0.25  # below every tape, above balls, which it never meets


class Watched(Traced):
    """An array whose operations are recorded. `array` is the NumPy array, `slot` its place in the
    record. A rule that reads the numbers, as that of `sort` does, chooses what is run by them."""

    __slots__ = ("array", "recorder", "slot")

    def __init__(self, recorder: ReferenceRecorder, value: Array, slot: int) -> None:
        self.level = WATCHED_LEVEL  # type: ignore[assignment]
        self.array = value
        self.recorder = recorder
        self.slot = slot

    @property
    def value(self) -> Array:
        self.recorder.execution.deciding.append(self.slot)
        return self.array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def __repr__(self) -> str:
        return f"Watched({self.array})"

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        if op.family == "custom":  # its operations are rows themselves
            return op.raw(*args, **keywords)
        return self.recorder.run(op, args, keywords)


class ReferenceRecorder(Observer):
    """`execution.Recorder` of the reference engine."""

    def __init__(self) -> None:
        self.execution = Execution(Arrays())
        self._made_for: dict[Any, int] = {}  # record of the tape -> node

    @contextmanager
    def recording(self) -> Iterator[None]:
        yield

    def watch(self, array: Any) -> Watched:
        array = np.asarray(array)
        slot = self.execution.add_slot(array, _format_of(array.dtype))
        return Watched(self, array, slot)

    def slot_of(self, array: Any) -> int | None:
        while isinstance(array, Traced) and not isinstance(array, Watched):
            array = array.value
        return array.slot if isinstance(array, Watched) else None

    def leave(self, node: int, value: Any) -> Any:
        """Assigns the records of the tape from this value down to those of earlier nodes to the
        node."""
        waiting = [getattr(value, "record", None)]
        while waiting:
            record = waiting.pop()
            if record is None or record.op is None or record in self._made_for:
                continue
            self._made_for[record] = node
            waiting.extend(record.parents)
        return value

    def visit(self, record: Any, y_bar: Any) -> None:
        """The reverse pass has reached this record."""
        self.node = self._made_for.get(record)

    def run(self, op: Op, args: Sequence[Value], keywords: dict[str, Any]) -> Watched:
        """Runs the row on plain arrays, and records it."""
        plain = [a.array if isinstance(a, Watched) else a for a in args]
        result = op.on_arrays(plain, keywords)
        made = self.watch(result)
        slots = tuple(a.slot if isinstance(a, Watched) else self._constant(a) for a in args)
        self.execution.add_step(
            Step(
                name=op.name,
                args=slots,
                results=(made.slot,),
                low=partial(_low, op, keywords),
                wide=partial(_low, op, _widened(keywords)),
                exact=partial(_exact, op, keywords),
                moves=op.exact,
                elementwise=op.elementwise,
                node=self.node,
                phase=self.phase,
            )
        )
        return made

    def _constant(self, value: Any) -> int:
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            return self.execution.add_slot(value, None)
        return self.watch(value).slot


@cache
def _format_of(dtype: np.dtype[Any]) -> FloatFormat | None:
    return format_named(dtype.name)  # NumPy spells the name anew each time


def _low(op: Op, keywords: dict[str, Any], args: Sequence[Any]) -> list[Array]:
    return [op.on_arrays(list(args), keywords)]


def _widened(keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords with a floating dtype replaced by float64 in high precision."""
    dtype = keywords.get("dtype")
    if dtype is None or format_named(np.dtype(dtype).name) is None:
        return keywords
    return {**keywords, "dtype": np.dtype(np.float64)}


def _exact(op: Op, keywords: dict[str, Any], args: Sequence[High]) -> list[High]:
    from reference_engine.arithmetic.arbs import unwrap
    from reference_engine.arithmetic.balls import Ball

    balls = [Ball(x) if isinstance(x, np.ndarray) and x.dtype == object else x for x in args]
    y = op(*balls, **keywords)
    plain = is_symbol(y) or (isinstance(y, np.ndarray) and y.dtype != object)
    return [y if plain else unwrap(y)]

"""The forward of a layer, as it ran, as a program of the op table (a lift).

What was recorded runs once more on symbols (`trace.symbols`): each operation is written down in the
rows that restate it. A step on which no differentiated leaf has an influence is a constant of the
point. So is an index: what is taken by it is the same nearby, or the point is on a jump or a kink,
which whoever uses the program must find out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.layer import Leaf, word_of
from gradcheck_cli.domain.place import Place, Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import SAME_STEP
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import Execution, Step
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from reference_engine.errors import ShapeError
from reference_engine.traced import ROWS

MOST_NODES = 4000
"""A node is evaluated at some ten points, and enclosed, in 0.5 ms together: two seconds in all."""


class NotLifted(EngineFault):
    """The forward cannot be stated in rows. The message names the operation, `place` its line."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True, slots=True)
class Lifted:
    """The program. Its inputs are the leaves, by their words (`domain.layer.word_of`), and the
    `constants` of the point, by name. Several outputs are one vector, one after the other."""

    program: Program
    constants: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class LiftedLayer:
    """The layer of one engine at the first point of its spec. `leaves` are the program's inputs,
    beside its constants."""

    engine: str
    target: str
    leaves: tuple[Leaf, ...]
    lifted: Lifted


def lifted(recording: Recording, leaves: Sequence[Leaf], place: Span) -> Lifted:
    """The recorded forward as a program; `place` stands for what has none in a file. Raises
    NotLifted."""
    return _LayerLifting(recording, place).run(leaves)


def lifted_outputs(
    execution: Execution,
    inputs: Mapping[str, int | None],
    outputs: Sequence[int | None],
    place: Span,
) -> Lifted:
    """A recorded run as a program that holds for other numbers of the inputs, too, with an output
    for each slot (None: there is none). Raises NotLifted; also where an index, or a mask of masks,
    depends on the numbers."""
    return _AnywhereLifting(execution, place).run(inputs, outputs)


class _Lifting:
    def __init__(self, execution: Execution, place: Span, public: bool = True) -> None:
        self._execution = execution
        self._place = place
        self._writer = ProgramWriter(place, public=public)
        self._symbols: dict[int, Symbol] = {}

    def _at(self, slot: int) -> Any:
        """The symbol of a slot, or the constant that it is."""
        found = self._symbols.get(slot)
        if found is not None:
            return found
        native = self._execution.slots[slot].native
        return native if isinstance(native, (bool, int, float)) else self._execution.values(slot)

    def _step(self, step: Step) -> None:
        if self._writer.size > MOST_NODES:
            raise NotLifted(f"it executes operations of more than {MOST_NODES} rows")
        if self._symbols.keys().isdisjoint(step.args):
            return
        numbers = [slot for slot in step.results if self._is_written(slot)]
        if not numbers or (step.exact is None and self._is_choice(step)):
            return  # indices, or a mask of masks
        self._write_at(step.place, step.name)
        for slot, value in zip(step.results, self._restated(step), strict=True):
            if slot in numbers and isinstance(value, Symbol):
                self._symbols[slot] = self._checked(step, slot, value)

    def _is_written(self, slot: int) -> bool:
        """Whether the program has a node for the slot: an index is a constant."""
        return self._execution.values(slot).dtype.kind not in "iu"

    def _is_choice(self, step: Step) -> bool:
        return all(self._execution.slots[slot].format is None for slot in step.results)

    def _restated(self, step: Step) -> Sequence[Any]:
        if step.exact is None:
            raise NotLifted(f"`{step.name}` is not stated in rows", step.place)
        try:
            return step.exact([self._at(slot) for slot in step.args])
        except (ShapeError, TypeError, ValueError) as error:
            message = f"`{step.name}` is not stated in rows for these arguments: {error}"
            raise NotLifted(message, step.place) from error

    def _checked(self, step: Step, slot: int, symbol: Symbol) -> Symbol:
        """The symbol at the value of the run. Raises NotLifted where its rows gave another one."""
        there = self._execution.values(slot)
        if symbol.shape != there.shape or not agree(np.asarray(symbol.value), there):
            raise NotLifted(f"`{step.name}` is not what its rows compute", step.place)
        return Symbol(self._writer, there, symbol.node)

    def _write_at(self, place: Place | None, name: str) -> None:
        writer = self._writer
        if place is None:
            writer.span, writer.text, writer.source = self._place, name, None
        else:
            writer.span, writer.text, writer.source = place.span, place.text, place.source


class _LayerLifting(_Lifting):
    """The forward of a layer, at its point."""

    def __init__(self, recording: Recording, place: Span) -> None:
        super().__init__(recording.execution, place)
        self._outputs = recording.outputs
        self._leaves = {
            name: recording.slots[index] for name, index in recording.program.inputs.items()
        }

    def run(self, leaves: Sequence[Leaf]) -> Lifted:
        for leaf in leaves:
            slot = self._leaves.get(leaf.name)
            value = leaf.value if slot is None else self._execution.values(slot)
            symbol = self._writer.input(word_of(leaf.name), value)
            if slot is not None and leaf.differentiable:
                self._symbols[slot] = symbol
        for place in self._execution.needed(self._outputs):
            self._step(self._execution.steps[place])
        parts = [self._at(slot) for slot in self._outputs]
        if len(parts) > 1:
            flat = [ROWS["reshape"](part, shape=(-1,)) for part in parts]
            parts = [ROWS["concatenate"](*flat, axis=0)]
        output = parts[0]
        if not isinstance(output, Symbol):
            raise NotLifted("no output depends on a leaf")
        return Lifted(self._writer.program(output), self._writer.constants)


class _AnywhereLifting(_Lifting):
    """A run, for other numbers of its inputs, too."""

    def __init__(self, execution: Execution, place: Span) -> None:
        super().__init__(execution, place, public=False)
        self._lost: set[int] = set()  # slots that depend on the inputs, and have no symbol

    def run(self, inputs: Mapping[str, int | None], outputs: Sequence[int | None]) -> Lifted:
        for name, slot in inputs.items():
            if slot is None:
                raise NotLifted(f"the input `{name}` is not part of what was recorded")
            self._symbols[slot] = self._writer.input(name, self._execution.values(slot))
        wanted = [slot for slot in outputs if slot is not None]
        for place in self._execution.needed(wanted):
            self._step(self._execution.steps[place])
        found = [None if slot is None else self._output(slot) for slot in outputs]
        return Lifted(self._writer.program(*found), self._writer.constants)

    def _output(self, slot: int) -> Symbol:
        found = self._at(slot)
        if isinstance(found, Symbol):
            return found
        return self._writer.constant(np.asarray(found, np.float64))

    def _step(self, step: Step) -> None:
        if not self._lost.isdisjoint(step.args):
            raise NotLifted(f"`{step.name}` chooses by the numbers of the run", step.place)
        if self._symbols.keys().isdisjoint(step.args):
            return
        if self._is_choice(step) and step.of_choices is not None:
            step.exact = step.of_choices
        super()._step(step)
        self._lost.update(slot for slot in step.results if slot not in self._symbols)

    def _is_written(self, slot: int) -> bool:
        return True


def agree(mine: Array, theirs: Array) -> bool:
    """Whether all numbers are the same to half of float64's digits, beside the largest of them."""
    if theirs.dtype.kind == "b":
        return bool(np.array_equal(mine.astype(np.bool_), theirs))
    finite = np.isfinite(theirs)
    if not np.array_equal(np.isfinite(mine), finite):
        return False
    size = np.max(np.abs(theirs), where=finite, initial=0.0)
    off = np.abs(np.where(finite, mine - theirs, 0.0))
    return bool(np.all(off <= SAME_STEP * size))

"""The operations that a JAX layer runs, and the user's line of each. The recorder of formulas
evaluates the jaxpr of the layer's gradient, whose equations name the layer's equation that they
belong to.

Equations that the outputs depend on are the user's code. The other equations compute the
derivative: by a custom rule if the equation's stack has a line of one, and otherwise by JAX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.place import Place, Span
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.execution import Step
from gradcheck_cli.engines.jax.kernels import PERMUTED_ARGS, ROWS
from gradcheck_cli.engines.jax.recorder import JaxRecorder
from gradcheck_cli.engines.jax.walk import BAR, CUSTOM_JVP, VALUE, Tag, Walk
from gradcheck_cli.engines.jax.wide import Pure
from gradcheck_cli.engines.layer.recording import Annotations, Recording, Row, as_recording
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.trace.exact_kernels import elementwise

_KEEPING = ("convert_element_type", "copy", "copy_p", "stop_gradient", "reshape", "reduce_sum")


@dataclass(frozen=True, slots=True)
class _Made:
    """A step, the tag for which it was made, the turns of loops in which it ran, and its line in a
    custom rule."""

    step: Step
    tag: int | None
    turns: tuple[int, ...]
    rule: Place | None


class LayerRecorder(JaxRecorder):
    """Records a user's code. What of it JAX compiles as one is not seen."""

    sees_calls = False

    def __init__(self, in_numpy: bool = False) -> None:
        super().__init__(in_numpy)
        self.annotations = Annotations(self.execution, _row_of)
        self._places_of = Places(__name__)
        self._made: list[_Made] = []
        self._values: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self._rule: Place | None = None
        self._power: int | None = None

    def _slot(self, array: Any, structural: bool = False) -> int:
        self.annotations.count(array.size, array.dtype)
        return super()._slot(array, structural)

    def _equation(
        self, equation: Any, args: Sequence[int], node: int | None, backward: bool
    ) -> list[int]:
        name, params = equation.primitive.name, equation.params
        if name == VALUE.name:
            self._values[params["tag"], params["index"], self.turns] = args[0]
            return list(args)
        if name == BAR.name:
            value = self._value_of(params["tag"], params["index"], self.turns)
            if value is not None:
                self.annotations.bars[value] = args[0]
            return list(args)
        around, traceback = self._rule, equation.source_info.traceback
        if traceback is not None:
            self._rule = self._places_of.of_stack(*traceback.raw_frames()) or around
        self._power = params.get("y") if name == "integer_pow" else None
        try:
            return super()._equation(equation, args, node, backward)
        finally:
            self._rule = around

    def _add(self, step: Step) -> list[int]:
        if self._power is not None:
            step.name = f"{step.name}[y={self._power}]"
        results, row = super()._add(step), _row_of(step.name)
        kept = step.name in _KEEPING and self._shape(step.args[0]) == self._shape(results[0])
        step.elementwise = kept or (row is not None and elementwise(row.name))
        self._made.append(_Made(step, step.node, self.turns, self._rule))
        step.node = None
        return results

    def _shape(self, slot: int) -> tuple[int, ...]:
        return tuple(self.execution.slots[slot].native.shape)

    def _value_of(self, tag: int, index: int, turns: tuple[int, ...]) -> int | None:
        """The slot of a result. A result that does not change in a loop was made outside."""
        for depth in range(len(turns), -1, -1):
            slot = self._values.get((tag, index, turns[:depth]))
            if slot is not None:
                return slot
        return None

    def annotate(self, tags: Sequence[Tag], outputs: Sequence[int]) -> None:
        """Assign each step to an owner, after the whole run is recorded."""
        wanted = set(outputs)
        primal: set[int] = set()
        for number in range(len(self._made) - 1, -1, -1):
            step = self._made[number].step
            if not wanted.isdisjoint(step.results):
                wanted.update(step.args)
                primal.add(number)
        for number, made in enumerate(self._made):
            tag = None if made.tag is None else tags[made.tag]
            step = made.step
            if number in primal or made.rule is not None:
                stated = step.phase == "backward" or (tag and tag.name == CUSTOM_JVP)
                step.place = made.rule or (tag.place if tag else None)
                self.annotations.add(step, stated=bool(number not in primal and stated))
                continue
            step.phase = "backward"
            owner = None if made.tag is None else self._value_of(made.tag, 0, made.turns)
            if owner is not None:
                self.annotations.owners.append((step, owner))

    def starts(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The slots of the arrays that the run received or captured, by name."""
        slots = {id(s.native): i for i, s in reversed(list(enumerate(self.execution.slots)))}
        return {name: slots[id(array)] for name, array in arrays.items() if id(array) in slots}


def record(layer: Pure, captured: Mapping[str, Any], place: Span) -> Recording:
    """Record one forward and one backward pass. Raises TooLarge, and what the user's code
    raises."""
    recorder = LayerRecorder()
    walk = Walk(layer.call, layer.arrays, Places(__name__))
    count = len(layer.bars)

    def derivative(*arrays: Any) -> list[Any]:
        found, pull = layer.at(arrays[count:]).vjp(walk)
        return [*found, *pull(arrays[:count])]

    slots = recorder.record(derivative, [*layer.bars, *layer.arrays])
    known = [slot for slot in slots if slot is not None]
    recorder.annotate(walk.tags, known[:count])
    gradients = dict(zip(layer.wrt, known[count:], strict=True))
    starts = recorder.starts({**layer.leaves, **captured})
    return as_recording(recorder.annotations, starts, gradients, known[:count], place)


def record_forward(layer: Pure, place: Span, in_numpy: bool) -> Recording:
    """Record one forward pass, with branches and loops as they run for these leaves. `in_numpy`:
    operations that NumPy has run in NumPy, because JAX would compile a program for each. Raises
    TooLarge, and what the user's code raises."""
    recorder = LayerRecorder(in_numpy)
    outputs = [slot for slot in recorder.record(layer.call, layer.arrays) if slot is not None]
    recorder.annotate((), outputs)
    starts = recorder.starts(layer.leaves)
    return as_recording(recorder.annotations, starts, {}, outputs, place)


def _row_of(name: str) -> Row | None:
    if name in PERMUTED_ARGS:
        return Row(*PERMUTED_ARGS[name])
    return Row(ROWS[name]) if name in ROWS else None

"""The run of a layer as a program: every operation that it executed is a node, with its place in
the user's file. Layers are explained as formulas are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Protocol

from gradcheck_cli.domain.dtypes import Array, as_numbers
from gradcheck_cli.domain.evaluation import Trace
from gradcheck_cli.domain.place import Place, Source, Span
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import Execution, Step
from gradcheck_cli.engines.layer.custom import ForwardPass, Passes
from gradcheck_cli.engines.trace.shadow import FLOAT64, shadow, to_float

# Operations and numbers of one forward and backward pass. Writing an operation down costs 30
# microseconds, a number its bytes; the search that follows is bounded by itself.
MOST_STEPS = 50_000
MOST_NUMBERS = 20_000_000


class TooLarge(EngineFault):
    """The run is too large to record. The message says what the limit is."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the op table for an operation: `name`, with the arrays `order` as its arguments."""

    name: str
    order: tuple[int, ...] | None = None


@dataclass(slots=True)
class Annotations:
    """What a recorder knows of a run beside the execution itself.

    row_of   from the recorder's name of an operation to its row
    forward  the steps that the user's code ran, a stated backward included, as places in the list
    stated   those of them that ran in the backward pass
    owners   of the other steps, the slot whose derivative they compute
    bars     a slot of the forward pass -> the slot of its cotangent
    numbers  of the results that have memory of their own; None before the layer is called
    most     the most of them: of a forward pass alone, as many as its leaves have at least
    """

    execution: Execution
    row_of: Callable[[str], Row | None]
    forward: list[Step] = field(default_factory=list)
    stated: set[int] = field(default_factory=set)  # places in `forward`
    owners: list[tuple[Step, int]] = field(default_factory=list)
    bars: dict[int, int] = field(default_factory=dict)
    numbers: int | None = None
    most: int = field(default_factory=lambda: MOST_NUMBERS)

    def add(self, step: Step, stated: bool) -> None:
        """Adds a step of the user's code; `stated`: of a custom backward."""
        if stated:
            self.stated.add(len(self.forward))
        step.phase = "forward"
        self.forward.append(step)

    def count(self, size: int, dtype: object) -> None:
        """Counts one more result with `size` numbers, twice that if they are complex. Raises
        TooLarge."""
        if self.numbers is None:
            return  # a leaf, which exists anyway
        self.numbers += 2 * size if "complex" in str(dtype) else size
        if len(self.execution.steps) >= MOST_STEPS or self.numbers > self.most:
            raise TooLarge(
                f"not traced: it executes more than {MOST_STEPS} operations"
                if self.numbers <= self.most
                else f"not traced: its operations produce more than {self.most:.0e} numbers"
            )


@dataclass(slots=True)
class Recording:
    """`slots` has the slot of every node, `gradients` of every leaf (None if it has none),
    `outputs` of every output, in order."""

    execution: Execution
    program: Program
    slots: list[int]
    bars: Mapping[int, int]
    stated: frozenset[int]
    gradients: Mapping[str, int | None]
    outputs: tuple[int, ...]

    def traces(self, dtype: str) -> tuple[Trace, Trace | None]:
        """The values of all nodes in the run; and their values if the same operations run in
        float64 on the same numbers (None if they did already)."""
        narrow = {slot: self.execution.values(slot) for slot in {*self.slots, *self.bars.values()}}
        if dtype == "float64":
            return self._trace(narrow), None
        everything = range(len(self.execution.steps))
        high = shadow(self.execution, list(everything), FLOAT64)
        wide = {s: to_float(high[s]) if s in high else v for s, v in narrow.items()}
        return self._trace(narrow), self._trace(wide)

    def _trace(self, arrays: Mapping[int, Array]) -> Trace:
        values = {node: as_numbers(arrays[slot]) for node, slot in enumerate(self.slots)}
        bars = {
            node: as_numbers(arrays[self.bars[slot]])
            for node, slot in enumerate(self.slots)
            if slot in self.bars
        }
        return Trace(values, bars)


def as_recording(
    annotations: Annotations,
    leaves: Mapping[str, int],
    gradients: Mapping[str, int | None],
    outputs: Sequence[int],
    place: Span,
) -> Recording:
    """The run as a program. `leaves`, `gradients` and `outputs` have slots. `place` is used for
    operations without a place in a file."""
    made = _Making(annotations, place)
    for name, slot in leaves.items():
        made.add(slot, Node(INPUT, (), {}, place, name, name=name, shape=made.shape(slot)))
    inputs = {name: made.nodes_of[slot] for name, slot in leaves.items()}
    stated: set[int] = set()
    for index, step in enumerate(annotations.forward):
        first = len(made.nodes)
        made.step(step, annotations.row_of(step.name))
        if index in annotations.stated:
            stated.update(range(first, len(made.nodes)))
    for step, slot in annotations.owners:
        step.node = made.nodes_of.get(slot)
    last = next((made.nodes_of[s] for s in outputs if s in made.nodes_of), len(made.nodes) - 1)
    program = Program(tuple(made.nodes), inputs, (last,), "")
    bars = {s: bar for s, bar in annotations.bars.items() if s in made.nodes_of}
    bars |= {leaves[n]: s for n, s in gradients.items() if s is not None and n in leaves}
    return Recording(
        annotations.execution,
        program,
        made.slots,
        bars,
        frozenset(stated),
        dict(gradients),
        tuple(outputs),
    )


class LayerRecorder(Protocol):
    """Records layers that run as they are (`custom.Passes`)."""

    annotations: Annotations

    def recording(self) -> AbstractContextManager[None]: ...

    def leaves(self, arrays: Mapping[str, Any]) -> dict[str, int]:
        """The slots of the arrays that the layer is called with, as far as the recorder sees
        them."""

    def output(self, array: Any) -> int:
        """The slot of an output of the layer."""

    def slot_of(self, array: Any) -> int | None: ...

    def derive(self) -> None:
        """Begins the backward pass of the recorded run."""

    def finish(self) -> None:
        """Ends the recording."""


def record(recorder: LayerRecorder, passes: Passes | ForwardPass, place: Span) -> Recording:
    """Records one forward pass and, of `Passes`, one backward pass. Raises TooLarge, and what the
    user's code raises."""
    gradients: dict[str, int | None] = {}
    with recorder.recording():
        leaves = recorder.leaves(passes.leaves)
        recorder.annotations.numbers = 0
        if isinstance(passes, ForwardPass):
            slots = recorder.annotations.execution.slots
            own = sum(slots[slot].size for slot in leaves.values())
            recorder.annotations.most = max(recorder.annotations.most, own)
        made = [recorder.output(array) for array in passes.call()]
        if isinstance(passes, Passes):
            recorder.derive()
            for name, grad in zip(passes.wrt, passes.pull(), strict=True):
                gradients[name] = None if grad is None else recorder.slot_of(grad)
    recorder.finish()
    return as_recording(recorder.annotations, leaves, gradients, made, place)


class _Making:
    def __init__(self, annotations: Annotations, place: Span) -> None:
        self._execution = annotations.execution
        self._place = place
        self.nodes: list[Node] = []
        self.slots: list[int] = []
        self.nodes_of: dict[int, int] = {}

    def shape(self, slot: int) -> tuple[int, ...]:
        return self._execution.slots[slot].shape

    def add(self, slot: int, node: Node) -> int:
        self.nodes_of[slot] = len(self.nodes)
        self.nodes.append(node)
        self.slots.append(slot)
        return self.nodes_of[slot]

    def step(self, step: Step, row: Row | None) -> None:
        args = [
            self.nodes_of[s] if s in self.nodes_of else self._add_unrecorded(s) for s in step.args
        ]
        slots = self._execution.slots
        if any(slots[slot].is_complex for slot in (*step.args, *step.results)):
            row = None  # rows are about real numbers
        if row is not None and row.order is not None and len(row.order) == len(args):
            args = [args[i] for i in row.order]
        span, text, source = _place_or(step.place, self._place, step.name)
        op = step.name if row is None else row.name
        for slot in step.results:
            node = Node(op, tuple(args), {}, span, text, shape=self.shape(slot), source=source)
            self.add(slot, node)
        if step.results:
            step.node = self.nodes_of[step.results[0]]

    def _add_unrecorded(self, slot: int) -> int:
        """A value that no recorded operation returned: a constant of the code or, in a custom
        backward, a value that the framework passed to it."""
        native = self._execution.slots[slot].native
        if isinstance(native, (bool, int, float)):
            value = native
            return self.add(slot, Node(CONSTANT, (), {}, self._place, repr(value), value=value))
        return self.add(slot, Node(INPUT, (), {}, self._place, "upstream", shape=self.shape(slot)))


def _place_or(place: Place | None, otherwise: Span, name: str) -> tuple[Span, str, Source | None]:
    if place is None:
        return otherwise, name, None
    return place.span, place.text, place.source

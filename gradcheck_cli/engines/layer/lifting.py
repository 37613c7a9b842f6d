"""Lifts the forward of a layer, as it ran, to a program of the op table.

The recorded run is repeated on symbols (`trace.symbols`): each operation is written in the rows
that restate it. A step that no differentiated leaf influences is a constant of the point. So is an
index: nearby it takes the same elements, unless the point is on a jump or a kink, which users of
the program must check.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat, Values, is_same_view
from gradcheck_cli.domain.layer import Leaf, word_of
from gradcheck_cli.domain.place import Place, Span
from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import OPERATIONS
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import ALONE, Execution, Step
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from gradcheck_cli.engines.tracebacks import raise_if_internal
from gradcheck_cli.formula.program import used_inputs
from reference_engine.errors import ShapeError
from reference_engine.traced import ROWS

MOST_NODES = 4000
"""A node is evaluated at some ten points, and enclosed, in 0.5 ms together: two seconds in all."""


class NotLifted(EngineFault):
    """The forward cannot be written in rows. The message names the operation; `place` is its
    line."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


MOST_COLUMNS = 128
"""Of the Jacobians of all islands, each of which takes some thirty runs of the operation."""

MOST_BENDS = 2**16
"""Numbers of the second derivative of an island, which every pass of balls multiplies: as many as
one of 40 numbers, number by number, has."""


@dataclass(frozen=True, slots=True)
class Island:
    """An operation that is not stated in rows. In the program it is y + J d + (B d) d / 2 with
    d = x - `at`, and x (n,) all numbers of its arguments that a leaf reaches. The constants `value`
    and `jacobian` of the program are y (m,) and J (m, n), and `bends` is B (m * n, n). Where that
    is too large, it is b (m,), and b (sum d)^2 / 2 stands in the place of (B d) d / 2, so that
    inf says that nothing is known of it. J and B are 0 until someone finds them. `call` runs the
    operation on x; `refusal` is what to raise where it may be no part of a program."""

    name: str
    at: Array
    value: str
    jacobian: str
    bends: str
    call: Callable[[Array], Array]
    refusal: NotLifted


@dataclass(frozen=True, slots=True)
class Lifted:
    """The program. Its inputs are the leaves, by their words (`domain.layer.word_of`), and the
    `constants` of the point, by name. Several outputs are joined to one vector. Operations that no
    row states are `islands`."""

    program: Program
    constants: Values
    islands: tuple[Island, ...] = ()

    def without_islands(self) -> Lifted:
        """The program without islands. Raises NotLifted."""
        for island in self.islands:
            raise island.refusal
        return self

    def computes_as(self, other: Lifted) -> bool:
        """Whether both programs execute the same operations with the same constants. Pivots of a
        factorisation that no output depends on may differ."""
        mine, theirs = self.program, other.program
        used = used_inputs(mine)
        return (
            mine.inputs == theirs.inputs
            and mine.outputs == theirs.outputs
            and list(map(_executed, mine.nodes)) == list(map(_executed, theirs.nodes))
            and self.constants.keys() == other.constants.keys()
            and all(
                np.array_equal(value, other.constants[name], equal_nan=True)
                for name, value in self.constants.items()
                if name in used
            )
        )


@dataclass(frozen=True, slots=True)
class LiftedLayer:
    """The lifted layer of one engine at the first point of its spec. `leaves` are the inputs of the
    program other than its constants."""

    engine: str
    target: str
    leaves: tuple[Leaf, ...]
    lifted: Lifted


def lifted(recording: Recording, leaves: Sequence[Leaf], place: Span) -> Lifted:
    """The recorded forward as a program. `place` is used for operations without a place in a file.
    Raises NotLifted."""
    return _LayerLifting(recording, place).run(leaves)


def lifted_outputs(
    execution: Execution,
    inputs: Mapping[str, int | None],
    outputs: Sequence[int | None],
    place: Span,
) -> Lifted:
    """A recorded run as a program that also holds for other numbers of the inputs. It has an output
    for each slot (None: there is none). Raises NotLifted, also if an index, a mask of masks or a
    branch depends on the numbers, or if products may be rounded to fewer digits."""
    for variable in FEWER_DIGITS:
        if os.environ.get(variable, _STRICT).upper() != _STRICT:
            raise NotLifted(f"how products round with {variable} is not known")
    return _AnywhereLifting(execution, place).run(inputs, outputs)


FEWER_DIGITS = (
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "TF_SET_ONEDNN_FPMATH_MODE",
)
"""Environment variables by which oneDNN, in PyTorch and TensorFlow, may round factors of products
to bfloat16."""
_STRICT = "STRICT"
OTHER_DEVICE = "how this device rounds is not known"
"""Why nothing is proven about programs on a GPU."""

_EXACT_ROWS = frozenset(("add", "subtract", "multiply", "divide", "negative", "sqrt"))
"""Rows that are rounded correctly in every dtype, so results that a dtype has are exact."""
SMALL_WHOLE = 1 << 8  # whole numbers up to it have the 8 bits of bfloat16


class _Lifting:
    def __init__(self, execution: Execution, place: Span, public: bool = True) -> None:
        self._execution = execution
        self._place = place
        self._writer = ProgramWriter(place, public=public)
        self._symbols: dict[int, Symbol] = {}
        self._read: set[int] = set()

    def _steps_for(self, slots: Sequence[int | None]) -> None:
        """Writes everything that these slots depend on. Results that nothing reads, such as the
        factors that a determinant keeps for its backward, have no node."""
        wanted = [slot for slot in slots if slot is not None]
        steps = [self._execution.steps[place] for place in self._execution.needed(wanted)]
        self._read = {*wanted, *(slot for step in steps for slot in step.args)}
        for step in steps:
            self._step(step)

    def _at(self, slot: int) -> Any:
        """The symbol of a slot, or its value if it is a constant."""
        symbol = self._symbols.get(slot)
        if symbol is not None:
            return symbol
        native = self._execution.slots[slot].native
        return native if isinstance(native, (bool, int, float)) else self._execution.values(slot)

    def _step(self, step: Step) -> None:
        if self._writer.size > MOST_NODES:
            raise NotLifted(f"its formula has more than {MOST_NODES} operations")
        if self._symbols.keys().isdisjoint(step.args):
            return
        numbers = [s for s in step.results if s in self._read and self._is_written(s)]
        if not numbers or (step.exact is None and self._is_choice(step)):
            return  # indices, or a mask of masks
        self._write_at(step.place, f"{step.name}.{ALONE}" if step.alone else step.name)
        before = self._writer.size
        for slot, value in zip(step.results, self._symbolic_results(step, numbers), strict=True):
            if slot in numbers and isinstance(value, Symbol):
                self._symbols[slot] = self._verify(step, slot, value)
                if step.kept and value.node >= before:
                    self._writer.keep(value)

    def _is_written(self, slot: int) -> bool:
        """Whether the program has a node for the slot. An index has none, because it is a
        constant."""
        return self._execution.values(slot).dtype.kind not in "iu"

    def _is_choice(self, step: Step) -> bool:
        return all(self._execution.slots[slot].format is None for slot in step.results)

    def _symbolic_results(self, step: Step, numbers: Sequence[int]) -> Sequence[Any]:
        """The results of a step as symbols. `numbers` are the results that are not indices."""
        if step.exact is None:
            refusal = NotLifted(f"gradcheck has no formula for `{step.name}`", step.place)
            return self._island(step, numbers, refusal)
        try:
            return step.exact([self._at(slot) for slot in step.args])
        except (ShapeError, TypeError, ValueError) as error:
            message = f"gradcheck has no formula for `{step.name}` with these arguments: {error}"
            return self._island(step, numbers, NotLifted(message, step.place))

    def _island(self, step: Step, numbers: Sequence[int], refusal: NotLifted) -> Sequence[Any]:
        """The results of a step that no row states, if it may be part of the program."""
        raise refusal

    def _verify(self, step: Step, slot: int, symbol: Symbol) -> Symbol:
        """The symbol with its value in the run. Raises NotLifted if its rows give another value."""
        there, mine = self._execution.values(slot), np.asarray(symbol.value)
        same = mine.shape == there.shape and agree(mine, there, self._format)
        if not same and (mine.shape != there.shape or not self._loses(step, slot, mine)):
            raise NotLifted(
                f"gradcheck's formula for `{step.name}` does not reproduce its result", step.place
            )
        return Symbol(self._writer, there, symbol.node)

    @cached_property
    def _format(self) -> FloatFormat:
        """The widest format of the run. A step that rounds to another has lost digits."""
        formats = (slot.format for slot in self._execution.slots if slot.format is not None)
        return max(formats, key=lambda format: format.bits, default=FORMATS["float64"])

    def _loses(self, step: Step, slot: int, mine: Array) -> bool:
        """Whether a step computes the same as its rows for this slot, but lost the digits of `mine`
        at the arguments of the run: exp(x) - 1 near 0, or a subnormal number that is flushed to
        zero."""
        there = self._execution.values(slot)
        moving = [slot for slot in dict.fromkeys(step.args) if slot in self._symbols]
        at = np.concatenate([self._execution.values(slot).ravel() for slot in moving])
        if at.dtype != np.float64 or not np.all(np.isfinite(at)):
            return False
        if not _is_lost(mine, there, at, self._format):
            return False
        rng = np.random.default_rng(53)
        draws = [way * rng.uniform(0.5, 2.0, at.size) for way in (1, -1)]
        return all(self._computes_rows(step, slot, moving, draw) for draw in draws)

    def _computes_rows(self, step: Step, slot: int, moving: Sequence[int], at: Array) -> bool:
        """Whether a step gives the same as its rows for this slot if the arguments that are
        `moving` have other values."""
        parts = parts_of(at, [self._execution.values(slot).shape for slot in moving])
        given = dict(zip(moving, parts, strict=True))
        symbols = {s: Symbol(self._writer, x, self._symbols[s].node) for s, x in given.items()}
        assert step.exact is not None
        try:
            theirs = self._run(step, moving, [slot], at)
            rows = step.exact([symbols.get(s, self._at(s)) for s in step.args])
        except Exception as error:  # outside of the domain of the operation
            raise_if_internal(error)
            return False
        mine = rows[step.results.index(slot)]
        return agree(np.asarray(getattr(mine, "value", mine)).ravel(), theirs, self._format)

    def _run(self, step: Step, moving: Sequence[int], numbers: Sequence[int], at: Array) -> Array:
        """The results `numbers` of a step, joined, with these values for the arguments that are
        `moving`."""
        execution = self._execution
        parts = parts_of(at, [execution.values(slot).shape for slot in moving])
        natives = {slot: execution.slots[slot].native for slot in step.args}
        for slot, part in zip(moving, parts, strict=True):
            natives[slot] = execution.conversions.native(part, natives[slot])
        results = dict(zip(step.results, step.low([natives[s] for s in step.args]), strict=True))
        found = [execution.conversions.numpy(results[slot]).ravel() for slot in numbers]
        return np.concatenate(found)

    def _write_at(self, place: Place | None, name: str) -> None:
        writer = self._writer
        if place is None:
            writer.span, writer.text, writer.source = self._place, name, None
        else:
            writer.span, writer.text, writer.source = place.span, place.text, place.source


class _LayerLifting(_Lifting):
    """Lifts the forward of a layer at its point."""

    def __init__(self, recording: Recording, place: Span) -> None:
        super().__init__(recording.execution, place)
        self._outputs = recording.outputs
        self._leaves = {
            name: recording.slots[index] for name, index in recording.program.inputs.items()
        }
        self._islands: list[Island] = []

    def run(self, leaves: Sequence[Leaf]) -> Lifted:
        for leaf in leaves:
            slot = self._leaves.get(leaf.name)
            value = leaf.value if slot is None else self._execution.values(slot)
            symbol = self._writer.input(word_of(leaf.name), value)
            if slot is not None and leaf.differentiable:
                self._symbols[slot] = symbol
        self._steps_for(self._outputs)
        parts = [self._at(slot) for slot in self._outputs]
        if len(parts) > 1:
            flat = [ROWS["reshape"](part, shape=(-1,)) for part in parts]
            parts = [ROWS["concatenate"](*flat, axis=0)]
        output = parts[0]
        if not isinstance(output, Symbol):
            raise NotLifted("no operation that was seen leads from an input to the output")
        program, constants = self._writer.program(output), self._writer.constants
        # the program may read no entry of what an island returned
        islands = tuple(island for island in self._islands if island.value in constants)
        return Lifted(program, constants, islands)

    def _island(self, step: Step, numbers: Sequence[int], refusal: NotLifted) -> Sequence[Any]:
        """The step with its masks fixed at the point, as indices are; otherwise the first terms of
        its Taylor series. Raises the refusal if the step is too large, or not repeatable."""
        values, writer = self._execution.values, self._writer
        depending = [slot for slot in dict.fromkeys(step.args) if slot in self._symbols]
        moving = [slot for slot in depending if values(slot).dtype.kind != "b"]
        if not moving:
            raise refusal
        if len(moving) < len(depending) and step.exact is not None:
            masks = {slot for slot in depending if slot not in moving}
            args = [values(slot) if slot in masks else self._at(slot) for slot in step.args]
            with suppress(ShapeError, TypeError, ValueError):
                return step.exact(args)
        at, value = (np.concatenate([values(s).ravel() for s in of]) for of in (moving, numbers))
        call = partial(self._run, step, moving, numbers)
        floats = at.dtype == np.float64 == value.dtype
        if not floats or at.size + sum(one.at.size for one in self._islands) > MOST_COLUMNS:
            raise refusal
        if not np.array_equal(call(at), value, equal_nan=True):
            raise refusal
        flat = [ROWS["reshape"](self._symbols[slot], shape=(-1,)) for slot in moving]
        away = ROWS["concatenate"](*flat, axis=0) - at
        y, jacobian = writer.constant(value), writer.constant(np.zeros((value.size, at.size)))
        m, n = value.size, at.size
        is_small = m * n * n <= MOST_BENDS
        bends = writer.constant(np.zeros((m * n, n) if is_small else m))
        if is_small:
            bent = ROWS["reshape"](ROWS["matmul"](bends, away), shape=(m, n))
            square = ROWS["matmul"](bent, away)
        else:
            square = bends * ROWS["sum"](away, axis=0) ** 2
        series = y + ROWS["matmul"](jacobian, away) + 0.5 * square
        *_, y_name, jacobian_name, bends_name = writer.constants
        island = Island(step.name, at, y_name, jacobian_name, bends_name, call, refusal)
        self._islands.append(island)
        parts = parts_of(series, [values(slot).shape for slot in numbers])
        found = dict(zip(numbers, parts, strict=True))
        return [found.get(slot) for slot in step.results]


class _AnywhereLifting(_Lifting):
    """Lifts a run for other numbers of its inputs, too."""

    def __init__(self, execution: Execution, place: Span) -> None:
        super().__init__(execution, place, public=False)
        self._lost: set[int] = set()  # slots that depend on the inputs, and have no symbol

    def run(self, inputs: Mapping[str, int | None], outputs: Sequence[int | None]) -> Lifted:
        for name, slot in inputs.items():
            if slot is None:
                raise NotLifted(f"the input `{name}` is not part of what was recorded")
            self._symbols[slot] = self._writer.input(name, self._execution.values(slot))
        deciding = self._execution.deciding
        self._steps_for([*outputs, *deciding])
        if any(slot in self._symbols or slot in self._lost for slot in deciding):
            raise NotLifted(
                "a branch, or the number of iterations of a loop, depends on the values of the run"
            )
        found = [None if slot is None else self._output(slot) for slot in outputs]
        return Lifted(self._writer.program(*found), self._writer.constants)

    def _output(self, slot: int) -> Symbol:
        value = self._at(slot)
        if isinstance(value, Symbol):
            return value
        return self._writer.constant(np.asarray(value, np.float64))

    def _step(self, step: Step) -> None:
        if not self._lost.isdisjoint(step.args):
            raise NotLifted(
                f"the choice of `{step.name}` depends on the values of the run", step.place
            )
        if self._symbols.keys().isdisjoint(step.args):
            if self._is_rounded_constant(step):
                self._write_constant(step)
            return
        if self._is_choice(step) and step.of_choices is not None:
            step.exact = step.of_choices
        super()._step(step)
        values = self._execution.values
        self._lost.update(s for s in step.results if s not in self._symbols and values(s).size)

    def _write_constant(self, step: Step) -> None:
        """Writes a step on constants, unless it is exact in every dtype, as 3 * 1 is, and a step
        that only moves numbers."""
        literals = [s for s in step.args if self._execution.values(s).dtype.kind == "f"]
        before = self._writer.size
        for slot in literals:
            self._symbols[slot] = self._writer.constant(self._execution.values(slot))
        super()._step(step)
        for slot in literals:
            self._symbols.pop(slot, None)
        rounded = {op for op in self._writer.rows_since(before) if not ROWS[op].exact}
        numbers = (self._execution.values(slot) for slot in (*step.args, *step.results))
        if not rounded or (rounded <= _EXACT_ROWS and all(map(_are_small_whole, numbers))):
            for slot in step.results:
                self._symbols.pop(slot, None)

    def _is_rounded_constant(self, step: Step) -> bool:
        """Whether the step computes numbers from constants alone and rounds, as log(0.3) does. In
        another dtype it rounds in another way, so it is part of the program."""
        kinds = [
            {self._execution.values(slot).dtype.kind for slot in slots}
            for slots in (step.args, step.results)
        ]
        return not step.moves and "f" in kinds[0] and kinds[1] == {"f"}

    def _is_written(self, slot: int) -> bool:
        return True

    def _verify(self, step: Step, slot: int, symbol: Symbol) -> Symbol:
        """If elements tie, the run may have another order than the row."""
        there = self._execution.values(slot)
        if there.dtype.kind in "iu" and there.shape == np.shape(symbol.value):
            return Symbol(self._writer, there, symbol.node)
        return super()._verify(step, slot, symbol)


def _are_small_whole(values: Array) -> bool:
    """Whether all numbers are whole, and small enough for bfloat16 to have them."""
    return bool(np.all((np.abs(values) <= SMALL_WHOLE) & (values == np.rint(values))))


def _is_lost(mine: Array, there: Array, at: Array, format: FloatFormat) -> bool:
    """Whether the difference is as large as the rounding errors of operations with numbers of size
    1, or of the size of their arguments."""
    size = max(1.0, float(np.max(np.abs(at), initial=0.0)))
    off = np.where(mine == there, 0.0, np.abs(mine - there))
    return bool(np.all(off <= OPERATIONS * format.unit_roundoff * size))


def _executed(node: Node) -> tuple[object, ...]:
    """What a node computes, independent of its place in a file."""
    return node.op, node.args, repr(sorted(node.keywords.items())), repr(node.value), node.shape


def parts_of(flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Arrays of these shapes from the numbers of one vector."""
    ends = np.cumsum([0, *map(math.prod, shapes)])
    places = zip(ends[:-1].tolist(), ends[1:].tolist(), shapes, strict=True)
    return [flat[start:end].reshape(shape) for start, end, shape in places]


def agree(mine: Array, theirs: Array, format: FloatFormat = FORMATS["float64"]) -> bool:
    """Whether all numbers agree to half of the format's digits, relative to the largest of them."""
    if theirs.dtype.kind == "b":
        return bool(np.array_equal(mine.astype(np.bool_), theirs))
    if is_same_view(mine, theirs):
        return True
    finite = np.isfinite(theirs)
    if not np.array_equal(np.isfinite(mine), finite):
        return False
    size = np.max(np.abs(theirs), where=finite, initial=0.0)
    off = np.abs(np.where(finite, mine - theirs, 0.0))
    return bool(np.all(off <= format.half * size))

"""Enclosures of a program's outputs over many boxes at once. `BoxProgram` rewrites a program into
rows with rules, and runs the rules (`rules`, `array_rules`) on batches of boxes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from copy import copy as copied
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program, ProgramCopy
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from gradcheck_cli.search.enclosures import (  # noqa: F401 - they fill the table of rules
    array_rules,
    function_rules,
    matrix_rules,
    normal_rules,
    order_rules,
    special_rules,
)
from gradcheck_cli.search.enclosures.enclosed import (
    Bounds,
    Enclosed,
    Mask,
    Rounding,
    between,
    literals,
    up,
)
from gradcheck_cli.search.enclosures.facts import Fact, facts_of, merged, signed
from gradcheck_cli.search.enclosures.faithful import (
    ADDS_IN_ANY_ORDER,
    BEYOND_THRESHOLD,
    MULTIPLIES,
    kernel_of,
    rounding_of,
)
from gradcheck_cli.search.enclosures.rules import RULES, as_flushed, stays_broken
from gradcheck_cli.truth.batching import Batch
from reference_engine.op import Composite
from reference_engine.traced import ROWS, Value, shape_of

_OF_MASKS = frozenset(
    (
        *("where", "logical_and", "logical_or", "logical_not", "all", "any"),
        *(*array_rules.MOVES, "take_along_axis", "scatter_add"),
    )
)
_ONLY_MOVES = frozenset(("pad", "tril", "triu", "diag", "scatter", "roll", "patches"))
"""Rows that put their numbers elsewhere, and 0 where none is put."""
_CREATED = frozenset(("eye", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like"))
"""Rows of arrays that are the same at all points."""
_BILINEAR = frozenset(("cross", "conv1d", "conv2d", "conv_input", "conv_weight"))
"""Rows of sums of products, in each of which a number of one array meets at most one of another."""
_MOST_PAIRS = 1 << 12  # the sizes of both arrays, multiplied
_WITH_PARTS = _ONLY_MOVES | _CREATED | _BILINEAR | {"trace"}
_SIZES = (1, 16, 128, 1024)
_DTYPES = {"float": np.float64, "int": np.int64, "bool": np.bool_}


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a choice depends on: the moving and the still number that are compared, and the
    elementwise operations from the moving one to the chosen sides."""

    moving: int
    still: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a batched program: its place in the program of one point (`own`; None if it
    has none there), a fact about it, the rounding of its kernel, the relative distance of the
    kernel from its name (`part`, from BEYOND_THRESHOLD), and the threshold of a choice."""

    index: int
    node: Node
    own: int | None
    fact: Fact | None
    rounding: Rounding
    part: float | None
    threshold: Threshold | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """A program for a number of boxes. `values` has the numbers that do not move, and `single` has
    them by their place in the program of one point. `moving` has both places of each moving input,
    and `steps` the operations that depend on these."""

    values: list[Any]
    single: list[Any]
    moving: dict[str, tuple[int, int]]
    steps: list[Step]
    outputs: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """All numbers of a program over boxes: `values` by node of the batched program, `single` by
    node of the program of one point. `wrong`: for each choice, its error where the engine chooses
    the wrong side."""

    compiled: Steps
    values: list[Any]
    single: list[Any]
    wrong: dict[int, Bounds]

    @property
    def outputs(self) -> list[Any]:
        return [None if i is None else self.values[i] for i in self.compiled.outputs]

    def first(self, count: int) -> list[Enclosed | None]:
        """The outputs over the first `count` boxes."""
        return [None if y is None else _first_rows(y, count) for y in self.outputs]


class BoxProgram:
    """A program on an engine with this rounding. `constants` are inputs that do not move. Raises
    Exceeds for a row without a rule, NotBatched for a program that cannot be batched."""

    def __init__(
        self,
        program: Program,
        constants: Mapping[str, Array],
        fmt: FloatFormat,
        rounding: Rounding,
        masks: Collection[str] = (),
    ) -> None:
        """`masks` are the boolean inputs that each box has its own values of."""
        program, more = expanded(program, constants)
        self.constants = {**constants, **more}
        program = split_evenly(program, self.constants)
        self.program = program = signed(merged(unrolled(gathered(program))))
        numbers = {n for n, i in program.inputs.items() if program.nodes[i].kind == "float"}
        self._names = numbers.union(masks)  # of the inputs that each point has
        self._facts = facts_of(program, rounding.again)
        self.rounding = rounding
        self._compiled: dict[tuple[int, frozenset[str]], Steps] = {}
        for node in program.nodes:
            if node.op not in (INPUT, CONSTANT) and node.op not in RULES:
                raise array_rules.no_rule(node.op)
        self._batches = {_SIZES[0]: Batch(program, _SIZES[0], self._names)}

    def __call__(
        self, low: Mapping[str, Array], high: Mapping[str, Array], count: int
    ) -> list[Enclosed | None]:
        """The outputs over boxes, given as arrays (count, *shape) of their least and largest
        numbers."""
        return self.over(low, high, count).first(count)

    def over(self, low: Mapping[str, Array], high: Mapping[str, Array], count: int) -> Run:
        """All numbers over boxes; the last box is repeated to fill a batch."""
        size = size_of(count)
        ends = {n: between(filled(low[n], size), filled(high[n], size)) for n in low}
        return self.run(ends, size)

    def ranges(self) -> BoxProgram:
        """The same program, for which only ranges are computed."""
        found = copied(self)
        found.rounding = replace(self.rounding, exact=True)
        found._compiled = {}
        return found

    def run(self, given: Mapping[str, Any], size: int) -> Run:
        """All numbers over `size` boxes (one of the sizes of `size_of`), with these inputs."""
        names = frozenset(given)
        if (size, names) not in self._compiled:
            self._compiled[size, names] = self._steps(size, names)
        compiled = self._compiled[size, names]
        values, single = compiled.values.copy(), compiled.single.copy()
        wrong: dict[int, Bounds] = {}
        for name, (index, own) in compiled.moving.items():
            values[index] = single[own] = given[name]
        for step in compiled.steps:
            self._take(step, values, single)
            if step.threshold is not None and not np.all(values[step.node.args[0]].agree):
                self._settle(step, step.threshold, values, single, wrong)
        return Run(compiled, values, single, wrong)

    def _steps(self, size: int, names: frozenset[str]) -> Steps:
        """The program for `size` boxes, with everything computed that no moving input reaches."""
        if size not in self._batches:
            self._batches[size] = Batch(self.program, size, self._names)
        batch = self._batches[size]
        facts = {batch.places[index]: fact for index, fact in self._facts.items()}
        own = {place: index for index, place in enumerate(batch.places)}
        nodes = batch.program.nodes
        inputs = {index: name for name, index in batch.program.inputs.items()}
        found = Steps([None] * len(nodes), [None] * len(own), {}, [], batch.program.outputs)
        moves: set[int] = set()
        for index, node in enumerate(nodes):
            if inputs.get(index) in names:
                found.moving[inputs[index]] = index, own[index]
                moves.add(index)
                continue
            if index in inputs:
                found.values[index] = self._input(inputs[index], size)
            elif node.op == CONSTANT:
                found.values[index] = self._constant(node)
            else:
                threshold = BEYOND_THRESHOLD.get(kernel_of(node)) if node.op == "where" else None
                rounding = rounding_of(
                    node, self.rounding, bool(node.args) and node.args[-1] in moves
                )
                step = Step(index, node, own.get(index), facts.get(index), rounding, threshold)
                if moves.intersection(node.args):
                    if node.op == "where" and not self.rounding.exact:
                        step = replace(step, threshold=_threshold(node, nodes, moves, found.steps))
                    found.steps.append(step)
                    moves.add(index)
                    continue
                self._take(step, found.values, found.single)
            if index in own:
                found.single[own[index]] = found.values[index]
        return found

    def _take(self, step: Step, values: list[Any], single: list[Any]) -> None:
        """Run one operation; `single` has the numbers by their place in the program of one
        point."""
        found = self.computed(step, [values[i] for i in step.node.args])
        if step.fact is not None:
            found = step.fact(found, single)
        values[step.index] = found
        if step.own is not None:
            single[step.own] = found

    def _settle(
        self,
        step: Step,
        threshold: Threshold,
        values: list[Any],
        single: list[Any],
        wrong: dict[int, Bounds],
    ) -> None:
        """Bound the error of a wrong choice. The engine chooses another side than exact arithmetic
        only where the compared numbers differ by at most their errors, so both sides are enclosed
        again for such numbers alone."""
        x, still = (array_rules.as_enclosed(values[i]) for i in (threshold.moving, threshold.still))
        reach = up(x.error + still.error) + (self.rounding.normal if self.rounding.flush else 0.0)
        lo = np.clip(still.lo - reach, x.lo, x.hi)
        hi = np.clip(still.hi + reach, x.lo, x.hi)
        again = {threshold.moving: replace(x, lo=lo, hi=np.maximum(lo, hi))}
        for part in threshold.steps:
            again[part.index] = self.computed(
                part, [again.get(i, values[i]) for i in part.node.args]
            )
        sides = [array_rules.as_enclosed(again.get(i, values[i])) for i in step.node.args[1:]]
        found, mask = values[step.index], values[step.node.args[0]]
        a, b = sides
        apart = np.maximum(a.hi, b.hi) - np.minimum(a.lo, b.lo)
        bad = a.bad | b.bad | ~np.isfinite(apart)
        most = np.where(bad, np.inf, up(apart + a.error + b.error))
        right = np.maximum(*(array_rules.as_enclosed(values[i]).a for i in step.node.args[1:]))
        most = np.where(mask.agree, np.inf, np.maximum(most, right))
        wrong[step.index] = most
        values[step.index] = replace(found, a=np.minimum(found.a, most))
        if step.own is not None:
            single[step.own] = values[step.index]

    def computed(self, step: Step, args: Sequence[Any]) -> Any:
        """The result of one operation, by its rule alone."""
        node = step.node
        taken = [as_flushed(self.rounding, x) if isinstance(x, Enclosed) else x for x in args]
        if node.op not in _OF_MASKS:
            taken = [array_rules.as_enclosed(x) for x in taken]
        if len(args) == 2 and args[0] is args[1]:
            taken[1] = taken[0]
        found = RULES[node.op](step.rounding, *taken, **node.keywords)
        broken = stays_broken(self.rounding, node.op, taken)
        if np.any(broken):
            found = replace(found, broken=found.broken | broken)
        return found if step.part is None else _approximated(found, taken[0], step.part)

    def _input(self, name: str, size: int) -> Any:
        value = np.asarray(self.constants[name])
        if value.dtype.kind != "f":
            return value
        return literals(self.rounding, np.broadcast_to(value, (size, *value.shape)))

    def _constant(self, node: Node) -> Any:
        if node.kind == "bool":
            return np.asarray(node.value)
        return literals(self.rounding, np.asarray(float(node.value or 0.0)))


_ORDERS = frozenset(("greater", "greater_equal", "less", "less_equal"))
_MOST_STEPS = 24  # between a threshold and the sides of a choice


def _threshold(
    node: Node, nodes: Sequence[Node], moves: Collection[int], steps: Sequence[Step]
) -> Threshold | None:
    """The threshold of a choice, if each element is compared with one that does not move, and all
    operations between the compared number and the sides are elementwise."""
    mask = nodes[node.args[0]]
    if mask.op not in _ORDERS or mask.shape != node.shape:
        return None
    moving = [i for i in mask.args if i in moves]
    still = [i for i in mask.args if i not in moves]
    if len(moving) != 1 or len(still) != 1 or nodes[moving[0]].shape != node.shape:
        return None
    reached, found = {moving[0]}, []
    for step in steps:
        if reached.intersection(step.node.args):
            row = ROWS[step.node.op]
            if step.node.kind != "float" or step.node.shape != node.shape or not row.elementwise:
                continue  # a side that depends on it is refused below
            reached.add(step.index)
            found.append(step)
    parts, wanted = [], set(node.args[1:]).intersection(reached)
    for step in reversed(found):
        if step.index in wanted:
            parts.append(step)
            wanted |= reached.intersection(step.node.args)
    if not parts or len(parts) > _MOST_STEPS:
        return None
    return Threshold(moving[0], still[0], tuple(reversed(parts)))


def _approximated(found: Enclosed, beyond: Any, part: float) -> Enclosed:
    """The enclosure of a kernel that differs from its name by the relative distance `part` beyond a
    threshold."""
    mask = array_rules.as_mask(beyond)
    off = np.where(mask.true | mask.computed_true, part, 0.0)
    lo, hi = found.lo - np.abs(found.lo) * off, found.hi + np.abs(found.hi) * off
    return replace(found, lo=lo, hi=hi, d=up(found.d + 2 * off * (1 + found.d)))


def size_of(count: int) -> int:
    """The number of boxes of the smallest batch that holds `count`."""
    return next(size for size in _SIZES if size >= count)


def filled(values: Array, size: int) -> Array:
    """The rows, with the last one repeated up to this size."""
    extra = np.repeat(values[-1:], size - len(values), axis=0)
    return np.concatenate([values, extra])


def _first_rows(y: Any, count: int) -> Enclosed:
    if isinstance(y, Mask):
        y = array_rules.as_enclosed(y)
    return y.map(lambda part: np.asarray(part[:count]))


class _Parts(ProgramWriter):
    """Writes the parts of composites without a rule, and rows that only move numbers as moves that
    have a rule."""

    def row(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Any:
        if not _has_parts(op.name):
            return super().row(op, args, keywords)
        if op.name == "trace":
            return ROWS["sum"](ROWS["diag"](*args))
        if op.name in _ONLY_MOVES:
            if keywords.get("value"):
                raise TypeError("a frame of other numbers than 0")
            if op.name == "scatter" and np.any(op.raw(np.ones(shape_of(args[0])), **keywords) > 1):
                raise TypeError("numbers that meet in one place")
            (found,) = self.move_numbers(lambda xs: [op.raw(*xs, **keywords)], args)
            return found
        if op.name in _CREATED:
            return op.raw(*(np.ones(shape_of(x)) for x in args), **keywords)
        if op.name in _BILINEAR:
            return self._products(op, args, keywords)
        return op.compose(*args, **keywords)

    def _products(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Any:
        """A row of `_BILINEAR`: moved numbers, multiplied and added up."""
        n, m = (math.prod(shape_of(x)) for x in args)
        if n * m > _MOST_PAIRS:
            raise TypeError("so many products")
        left, right = (shape_of(x) for x in args)
        codes = np.arange(1.0, m + 1).reshape(right)
        meets = [op.raw(one.reshape(left), codes, **keywords) for one in np.eye(n)]
        shape = meets[0].shape
        table = np.stack([np.ravel(one) for one in meets], axis=1)  # of each result, by x
        order = np.argsort(table == 0, axis=1, kind="stable")
        order = order[:, : max(1, np.max(np.count_nonzero(table, axis=1), initial=0))]
        partner = np.take_along_axis(table, order, axis=1)
        none, at = partner == 0, np.abs(partner).astype(np.int64) - 1
        (x,) = self.move_numbers(lambda xs: [np.where(none, 0.0, np.ravel(xs[0])[order])], args[:1])
        (w,) = self.move_numbers(lambda xs: [np.where(none, 0.0, np.ravel(xs[0])[at])], args[1:])
        if np.any(partner < 0):
            w = ROWS["multiply"](w, np.where(partner < 0, -1.0, 1.0))
        total = ROWS["sum"](ROWS["multiply"](x, w), axis=(1,))
        return ROWS["reshape"](total, shape=shape)


def expanded(
    program: Program, constants: Mapping[str, Array]
) -> tuple[Program, Mapping[str, Array]]:
    """The program in rows that have a rule, as far as possible, and the arrays that become inputs
    of these rows. Labels and indices among the `constants` determine the rows."""
    inputs: dict[str, int] = {}
    more: dict[str, Array] = {}
    if not any(_has_parts(node.op) for node in program.nodes):
        return program, more
    whole = {
        index: np.asarray(constants[name])
        for name, index in program.inputs.items()
        if name in constants and program.nodes[index].kind != "float"
    }
    numbers = [(i, node) for i, node in enumerate(program.nodes) if node.op == CONSTANT]
    whole |= {i: np.asarray(node.value) for i, node in numbers if node.kind != "float"}
    copy = ProgramCopy(program)
    for index, node in enumerate(program.nodes):
        moved = copy.copied(node)
        found = _body(node, program.nodes, whole) if _has_parts(node.op) else None
        if found is None:
            copy.place[index] = copy.add(moved)
            continue
        body, arrays = found
        args = []
        for name, place in body.inputs.items():
            if name in arrays:
                own = f"{index}.{name}"
                more[own], inputs[own] = arrays[name], copy.add(body.nodes[place])
                args.append(inputs[own])
            else:
                args.append(moved.args[int(name)])
        copy.place[index] = copy.append(body, args)
    return copy.finished(inputs), more


def gathered(program: Program) -> Program:
    """The program in which the kernel `ADDS_IN_ANY_ORDER`, restated as one sum after the other,
    adds all numbers at once."""
    copy = ProgramCopy(program)
    parts: dict[int, tuple[int, ...]] = {}  # by the place of a sum, what it adds
    for index, old in enumerate(program.nodes):
        node = copy.copied(old)
        if node.op != "add" or kernel_of(node) != ADDS_IN_ANY_ORDER:
            copy.place[index] = copy.add(node)
            continue
        added = tuple(part for i in node.args for part in parts.get(i, (i,)))
        if len(added) > 2:
            shape = (len(added), *node.shape)
            stack = copy.add(
                replace(node, op="stack", args=added, keywords={"axis": 0}, shape=shape)
            )
            how = {"axis": 0, "keepdims": False}
            node = replace(node, op="sum", args=(stack,), keywords=how)
        copy.place[index] = copy.add(node)
        parts[copy.place[index]] = added
    return copy.finished()


def unrolled(program: Program) -> Program:
    """The program in which kernels of `MULTIPLIES`, restated as powers, become the products and the
    quotient that they compute, by squaring (`jax._src.lax.lax._integer_pow`)."""
    copy = ProgramCopy(program)
    for index, old in enumerate(program.nodes):
        node = copy.copied(old)
        exponent = _exponent(node, copy.nodes) if node.text in MULTIPLIES else None
        if exponent not in (MULTIPLIES.get(node.text) or (exponent,)):
            exponent = None
        if exponent is None:
            copy.place[index] = copy.add(node)
            continue
        square, product, rest = node.args[0], None, abs(exponent)
        while rest:
            if rest % 2:
                factors = (square,) if product is None else (product, square)
                product = square if product is None else copy.add(_part(node, "multiply", factors))
            rest //= 2
            if rest:
                square = copy.add(_part(node, "multiply", (square, square)))
        assert product is not None
        if exponent < 0:
            one = _number(copy, node, 1.0)
            product = copy.add(_part(node, "divide", (one, product)))
        if product != node.args[0]:
            copy.nodes[product] = replace(copy.nodes[product], kept=node.kept)
        copy.place[index] = product
    return copy.finished()


def split_evenly(program: Program, constants: Mapping[str, Array]) -> Program:
    """The program in which a choice between two numbers, divided by another such choice, becomes a
    choice between their quotients.

    JAX's derivative of a maximum is where(x = z, 1, 0) / where(y = z, 2, 1), which is never 1 / 0,
    however wrong a comparison is.
    """
    copy = ProgramCopy(program)
    names = {index: name for name, index in program.inputs.items()}

    def sides(index: int) -> list[float] | None:
        """The two numbers of a choice, if it is one of two numbers."""
        node, found = program.nodes[index], []
        for i in node.args[1:] if node.op == "where" else ():
            value = constants.get(names[i]) if i in names else program.nodes[i].value
            numbers = np.unique(np.asarray(np.nan if value is None else value, np.float64))
            if len(numbers) != 1:
                return None
            found.append(float(numbers[0]))
        return found or None

    for index, node in enumerate(program.nodes):
        moved = copy.copied(node)
        above, below = map(sides, node.args) if node.op == "divide" else (None, None)
        if above and below and all(y in (1, 2) for y in below) and all(x in (0, 1) for x in above):
            masks = [copy.nodes[i].args[0] for i in moved.args]
            inner = []
            for x in above:
                shares = [_number(copy, node, x / y) for y in below]
                choice = _part(node, "where", (masks[1], *shares))
                inner.append(copy.add(replace(choice, wants=("bool", "float", "float"))))
            wants = "bool", "float", "float"
            moved = replace(_part(node, "where", (masks[0], *inner)), wants=wants, kept=node.kept)
        copy.place[index] = copy.add(moved)
    return copy.finished()


def _number(copy: ProgramCopy, like: Node, value: float) -> int:
    return copy.add(replace(_part(like, CONSTANT, ()), value=value, shape=()))


def _exponent(node: Node, nodes: Sequence[Node]) -> int | None:
    """The nonzero integer exponent of a node; None if it is not such a power."""
    if node.op in ("square", "reciprocal"):
        return 2 if node.op == "square" else -1
    value = nodes[node.args[1]].value if node.op == "power" else None
    return int(value) if value and float(value).is_integer() else None


def _part(node: Node, op: str, args: tuple[int, ...]) -> Node:
    return replace(node, op=op, args=args, keywords={}, kept=False)


def _has_parts(op: str) -> bool:
    if op in _WITH_PARTS:
        return True
    return op not in RULES and op not in (INPUT, CONSTANT) and isinstance(ROWS.get(op), Composite)


def _body(
    node: Node, nodes: Sequence[Node], whole: Mapping[int, Array]
) -> tuple[Program, Mapping[str, Array]] | None:
    """The parts of one node as a program whose inputs are named by the places of the node's
    arguments, and its own arrays by name. None if they depend on numbers of a run. `whole` are
    labels and indices."""
    if any(nodes[i].kind == "int" and i not in whole for i in node.args):
        return None
    writer = _Parts(node.span, public=False)
    writer.text, writer.source = node.text, node.source
    symbols = [
        whole[i]
        if i in whole
        else writer.input(str(place), np.ones(nodes[i].shape, _DTYPES[nodes[i].kind]))
        for place, i in enumerate(node.args)
    ]
    try:
        found = ROWS[node.op](*symbols, **node.keywords)
    except (TypeError, ValueError):
        return None
    if not isinstance(found, Symbol):
        if node.op not in _CREATED or node.kind != "float":
            return None
        found = writer.constant(np.asarray(found, np.float64))
    return writer.program(found), writer.constants

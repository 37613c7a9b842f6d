"""A program as a plain float64 function for differences, without a tape or custom gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program, ProgramCopy
from gradcheck_cli.domain.program_cache import cached_by_program
from gradcheck_cli.domain.records import dataclass

STOP = "stop_gradient"
_FROZEN = "stop_gradient:{}"


def elementwise(op: str) -> bool:
    """Check whether an element of this row's result depends only on the elements of the arguments
    that broadcasting pairs with it."""
    from reference_engine.traced import ROWS

    return op in ROWS and ROWS[op].elementwise


def inlined(program: Program, names: Container[str] | None = None) -> Program:
    """The program with every custom gradient (or those in `names`) replaced by its forward. The
    truth differentiates this program."""
    if not program.has_custom_gradient:
        return program
    copy = ProgramCopy(program)
    for index, node in enumerate(program.nodes):
        moved = copy.copied(node)
        if node.custom is None or not (names is None or node.custom.name in names):
            copy.place[index] = copy.add(moved)
        else:
            copy.place[index] = copy.append(inlined(node.custom.forward, names), moved.args)
    return copy.finished()


def frozen(
    program: Program, values: Mapping[str, Array], rounding: str
) -> tuple[Program, dict[str, Array]]:
    """Turn every `stop_gradient` into an input that keeps its value at this point.

    A difference of the result is then the derivative that the user asked for with `stop_gradient`.
    Returns the program and the values of all its inputs, including the new ones.
    """
    if not any(node.op == STOP for node in program.nodes):
        return program, dict(values)
    at_point = PlainFunction(program, rounding).nodes(values)
    nodes, inputs, complete = list(program.nodes), dict(program.inputs), dict(values)
    for index, node in enumerate(program.nodes):
        if node.op == STOP:
            name = _FROZEN.format(index)
            nodes[index] = replace(node, op=INPUT, args=(), name=name)
            inputs[name] = index
            complete[name] = np.asarray(at_point[index])
    return Program(tuple(nodes), inputs, program.outputs, program.text), complete


def moving(program: Program, wrt: Iterable[str]) -> frozenset[int]:
    """The nodes that depend on an input of `wrt`. Kinks of other nodes do not matter."""
    reached = {program.inputs[name] for name in wrt}
    for index, node in enumerate(program.nodes):
        if node.op != STOP and not reached.isdisjoint(node.args):
            reached.add(index)
    return frozenset(reached)


def constant(node: Node, fmt: FloatFormat) -> Any:
    """The value of a constant of the formula; a floating number is rounded to `fmt`."""
    if node.kind == "float":
        assert node.value is not None
        return fmt.round(float(node.value))[()]
    return np.asarray(node.value)


@dataclass(frozen=True, slots=True)
class Roundings:
    """Factors near 1 for the numbers of some nodes, in one flat array, with the `places` of each
    node."""

    factors: Array
    places: Mapping[int, slice]


class PlainFunction:
    """`program` in float64, its constants rounded to `rounding`. Call it with a value for each
    input."""

    def __init__(self, program: Program, rounding: str) -> None:
        from reference_engine.traced import ROWS

        fmt = FORMATS[rounding]
        self._program = program
        self._start: list[Any] = [None] * len(program.nodes)
        self._places: dict[tuple[str, ...], tuple[int, dict[int, slice]]] = {}  # of `roundings`
        self._steps: list[tuple[int, Callable[..., Any], tuple[int, ...], dict[str, Any]]] = []
        for index, node in enumerate(program.nodes):
            if node.op == CONSTANT:
                self._start[index] = constant(node, fmt)
            elif node.op == CUSTOM:
                raise ValueError("inline custom gradients first")
            elif node.op != INPUT:
                self._steps.append((index, ROWS[node.op].raw, node.args, dict(node.keywords)))

    def nodes(
        self, values: Mapping[str, Array], altered: Callable[[int, Any], Any] | None = None
    ) -> list[Any]:
        """The value of every node. Overflow, invalid operations and the like give inf and nan.
        Later nodes use `altered(index, value)` in place of the value of a node."""
        slots = self._start.copy()
        for name, index in self._program.inputs.items():
            slots[index] = values[name] if altered is None else altered(index, values[name])
        for index, function, args, keywords in self._steps:
            found = function(*[slots[i] for i in args], **keywords)
            if type(found) is not np.ndarray:
                found = np.asarray(found)
            slots[index] = found if altered is None else altered(index, found)
        return slots

    def roundings(
        self, wrt: Iterable[str], rng: np.random.Generator, draws: int | None = None
    ) -> Roundings:
        """Random factors that move the inputs `wrt`, and every number that depends on them, by an
        ulp up or down; with `draws`, a row of factors for each draw."""
        key = tuple(wrt)
        if key not in self._places:
            nodes = self._program.nodes
            mine = [i for i in moving(self._program, key) if nodes[i].kind == "float"]
            sizes = [math.prod(nodes[i].shape) for i in mine]
            ends = itertools.accumulate(sizes)
            places = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
            self._places[key] = sum(sizes), dict(zip(mine, places, strict=True))
        count, places_of = self._places[key]
        drawn = signs(rng, count if draws is None else (draws, count))
        drawn *= 2 * FORMATS["float64"].unit_roundoff
        drawn += 1
        return Roundings(drawn, places_of)

    def randomly_rounded(
        self, values: Mapping[str, Array], wrt: Iterable[str], rng: np.random.Generator
    ) -> Array:
        """The value with `roundings`. Its distance to the plain value is a sample of the effect of
        rounding (Parker, "Monte Carlo Arithmetic", 1997)."""
        roundings = self.roundings(wrt, rng)

        def moved(index: int, numbers: Any) -> Any:
            if index not in roundings.places:
                return numbers
            array = np.asarray(numbers)
            return array * roundings.factors[roundings.places[index]].reshape(array.shape)

        found = self.nodes(values, moved)[self._program.output]
        return np.asarray(found, dtype=np.float64)

    def __call__(self, values: Mapping[str, Array]) -> Array:
        return np.asarray(self.nodes(values)[self._program.output], dtype=np.float64)


plain_function = cached_by_program(PlainFunction)

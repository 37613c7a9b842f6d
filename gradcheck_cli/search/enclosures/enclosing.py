"""A program over many boxes at once: the enclosure of each output.

`BoxProgram` takes a program and runs its rules (`rules`, `array_rules`) on a batch of boxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.search.batching import Batch
from gradcheck_cli.search.enclosures import (  # noqa: F401 - they fill the table of rules
    array_rules,
    function_rules,
    special_rules,
)
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Mask, Rounding, between, literals, up
from gradcheck_cli.search.enclosures.expanded import expanded, gathered
from gradcheck_cli.search.enclosures.facts import facts_of, merged
from gradcheck_cli.search.enclosures.faithful import BEYOND_THRESHOLD, kernel_of
from gradcheck_cli.search.enclosures.rules import RULES, read, stays_broken

_OF_MASKS = frozenset(("where", "logical_and", "logical_or", "logical_not", *array_rules.MOVES))
_SIZES = (1, 16, 128, 1024)


class BoxProgram:
    """A program on an engine with this rounding; `constants` are inputs that do not move. Raises
    Exceeds for a row without a rule, NotBatched for one that cannot be batched."""

    def __init__(
        self,
        program: Program,
        constants: Mapping[str, Array],
        fmt: FloatFormat,
        rounding: Rounding,
    ) -> None:
        program = merged(gathered(expanded(program)))
        self._program = program
        self._facts = facts_of(program)
        self._constants = constants
        self._rounding = rounding
        self._batched: dict[int, Batch] = {}
        for node in program.nodes:
            if node.op not in (INPUT, CONSTANT) and node.op not in RULES:
                raise array_rules.no_rule(node.op)
        self._of(_SIZES[0])

    def _of(self, size: int) -> Batch:
        if size not in self._batched:
            self._batched[size] = Batch(self._program, size)
        return self._batched[size]

    def __call__(
        self, low: Mapping[str, Array], high: Mapping[str, Array], count: int
    ) -> list[Enclosed | None]:
        """The outputs over boxes: arrays (count, *shape) of the least and largest numbers."""
        size = next(size for size in _SIZES if size >= count)
        batch = self._of(size)
        program = batch.program
        facts = {batch.places[index]: fact for index, fact in self._facts.items()}
        own = {batch.places[index]: index for index in range(len(self._program.nodes))}
        single: list[Any] = [None] * len(self._program.nodes)
        values: list[Any] = [None] * len(program.nodes)
        for name, index in program.inputs.items():
            values[index] = self._input(name, low, high, size)
        with np.errstate(all="ignore"):
            for index, node in enumerate(program.nodes):
                if node.op == CONSTANT:
                    values[index] = self._constant(node)
                elif node.op != INPUT:
                    values[index] = self._run(node, [values[i] for i in node.args])
                    if index in facts:
                        values[index] = facts[index](values[index], single)
                if index in own:
                    single[own[index]] = values[index]
        outputs = (None if i is None else values[i] for i in program.outputs)
        return [None if y is None else _first(y, count) for y in outputs]

    def _run(self, node: Node, args: list[Any]) -> Any:
        taken = [read(self._rounding, x) if isinstance(x, Enclosed) else x for x in args]
        if node.op not in _OF_MASKS:
            taken = [array_rules.as_enclosed(x) for x in taken]
        if len(args) == 2 and args[0] is args[1]:
            taken[1] = taken[0]
        found = RULES[node.op](self._rounding, *taken, **node.keywords)
        broken = stays_broken(self._rounding, node.op, taken)
        if np.any(broken):
            found = replace(found, broken=found.broken | broken)
        part = BEYOND_THRESHOLD.get(kernel_of(node)) if node.op == "where" else None
        return found if part is None else _approximated(found, taken[0], part)

    def _input(
        self, name: str, low: Mapping[str, Array], high: Mapping[str, Array], size: int
    ) -> Any:
        if name in low:
            return between(_filled(low[name], size), _filled(high[name], size))
        value = np.asarray(self._constants[name])
        if value.dtype.kind != "f":
            return value
        return literals(self._rounding, np.broadcast_to(value, (size, *value.shape)))

    def _constant(self, node: Node) -> Any:
        if node.kind == "bool":
            return np.asarray(node.value)
        return literals(self._rounding, np.asarray(float(node.value or 0.0)))


def _approximated(found: Enclosed, beyond: Any, part: float) -> Enclosed:
    """What was computed beside what the kernel is named after, which is off by this part of it
    beyond a threshold."""
    mask = array_rules.as_mask(beyond)
    off = np.where(mask.true | mask.computed_true, part, 0.0)
    lo, hi = found.lo - np.abs(found.lo) * off, found.hi + np.abs(found.hi) * off
    return replace(found, lo=lo, hi=hi, d=up(found.d + 2 * off * (1 + found.d)))


def _filled(values: Array, size: int) -> Array:
    extra = np.repeat(values[-1:], size - len(values), axis=0)
    return np.concatenate([values, extra])


def _first(y: Any, count: int) -> Enclosed:
    if isinstance(y, Mask):
        y = array_rules.as_enclosed(y)
    return y.map(lambda part: np.asarray(part[:count]))  # type: ignore[no-any-return]

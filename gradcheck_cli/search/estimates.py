"""Values and gradients at many points: an engine's answers, and an estimate of the right ones.

Both are `Answers`. The estimate comes from the reference engine's rules with more digits than the
dtype has (80 bits for float64). It is used only to choose the points that need a certified truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.truth.plain import constant


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers at N points. `value` has shape (N, M), M outputs; `gradients` has one array (N, M, n)
    for each differentiated input of n elements. `answered` (N,) marks the points with an answer."""

    value: Array
    gradients: Mapping[str, Array]
    answered: Array

    def at_points(self, some: slice) -> Answers:
        """The answers at some points."""
        gradients = {name: g[some] for name, g in self.gradients.items()}
        return Answers(self.value[some], gradients, self.answered[some])

    def first(self, count: int) -> Answers:
        """The answers at the first points."""
        return self.at_points(slice(count))

    def at(self, index: int) -> Answers:
        """The answers at one point."""
        return self.at_points(slice(index, index + 1))


class Estimator:
    """The value and gradient of a program, which may be batched, with constants rounded to
    `dtype`."""

    def __init__(self, program: Program, wrt: Sequence[str], dtype: str) -> None:
        from reference_engine.traced import ROWS

        self._program = program
        self._wrt = tuple(wrt)
        self._wide: Any = np.longdouble if dtype == "float64" else np.float64
        fmt = FORMATS[dtype]
        self._template = [
            constant(node, fmt) if node.op == CONSTANT else None for node in program.nodes
        ]
        self._calls = [
            (index, ROWS[node.op], node)
            for index, node in enumerate(program.nodes)
            if node.op not in (CONSTANT, INPUT)
        ]

    def __call__(self, values: Mapping[str, Array], count: int) -> Answers:
        """The answers for arrays (count, *shape); for a program that is not batched, for one point,
        count 1."""
        try:
            return self._at(values, count)
        except TypeError:  # a function that exists only up to float64
            if self._wide is np.float64:
                raise
            self._wide = np.float64
            return self._at(values, count)

    def _at(self, values: Mapping[str, Array], count: int) -> Answers:
        from reference_engine.tape import Node, pull_back
        from reference_engine.traced import new_level

        level = new_level()
        wide = {
            name: array.astype(self._wide) if array.dtype.kind == "f" else array
            for name, array in values.items()
        }
        variables = {name: Node(level, wide[name]) for name in self._wrt}
        y = self._run({**wide, **variables})
        value = np.asarray(y.value if isinstance(y, Node) else y)
        flat = np.asarray(value, np.float64).reshape(count, -1)
        gradients = {
            name: np.zeros((count, flat.shape[1], wide[name].size // count)) for name in self._wrt
        }
        for row in range(flat.shape[1]):
            if not isinstance(y, Node):
                break
            seed = np.zeros((count, flat.shape[1]), self._wide)
            seed[:, row] = 1
            reached = pull_back([(y, seed.reshape(value.shape))], list(variables.values()))
            for name, variable in variables.items():
                found = reached.get(variable.record)
                if found is not None:
                    gradients[name][:, row] = np.asarray(found, np.float64).reshape(count, -1)
        return Answers(flat, gradients, np.ones(count, np.bool_))

    def _run(self, given: Mapping[str, Any]) -> Any:
        slots = list(self._template)
        for name, index in self._program.inputs.items():
            slots[index] = given[name]
        for index, call, node in self._calls:
            slots[index] = call(*(slots[i] for i in node.args), **node.keywords)
        return slots[self._program.output]


def row_cotangents(count: int, shape: tuple[int, ...]) -> Array:
    """The cotangents of a batched output (count, *shape): one for each of its M elements, which
    selects this element at every point. Points do not interact, so each gets its own gradient."""
    outputs = int(np.prod(shape))
    rows = np.zeros((outputs, count, outputs))
    for i in range(outputs):
        rows[i, :, i] = 1.0
    return rows.reshape(outputs, count, *shape)


def answers_of(output: Array, gradients: Mapping[str, Array], count: int) -> Answers:
    """The answers of a batched run: `output` (N, *shape), and gradients (M, N n)."""
    value = np.asarray(output, np.float64).reshape(count, -1)
    return Answers(
        value,
        {
            name: np.moveaxis(array.reshape(value.shape[1], count, -1), 0, 1)
            for name, array in gradients.items()
        },
        np.ones(count, np.bool_),
    )

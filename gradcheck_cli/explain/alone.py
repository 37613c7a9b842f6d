"""One call of a program as a program of its own, at given numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT, Node, Program
from gradcheck_cli.truth.plain import elementwise


@dataclass(frozen=True, slots=True)
class Alone:
    """`program` is one call whose arguments are the inputs a0, a1, ...; `wrt` are the floating
    ones."""

    program: Program
    values: Mapping[str, Array]
    wrt: tuple[str, ...]


def alone(node: Node, args: Sequence[Array]) -> Alone:
    """The call `node` with these arrays as its arguments."""
    names = [f"a{k}" for k in range(len(args))]
    inputs = [
        Node(
            op=INPUT, args=(), keywords={}, span=node.span, text=name, name=name, shape=np.shape(a)
        )
        for name, a in zip(names, args, strict=True)
    ]
    shape = np.broadcast_shapes(*map(np.shape, args)) if elementwise(node.op) else node.shape
    call = replace(node, args=tuple(range(len(args))), name=None, shape=shape)
    values = {
        n: np.asarray(a, dtype=np.float64) if np.asarray(a).dtype.kind == "f" else np.asarray(a)
        for n, a in zip(names, args, strict=True)
    }
    wrt = tuple(n for n in names if values[n].dtype.kind == "f")
    program = Program(
        (*inputs, call), {n: k for k, n in enumerate(names)}, (len(names),), node.text
    )
    return Alone(program, values, wrt)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a row does at numbers, in float64: its value there, and its slope along each argument
    (0 along one that it is not differentiated by)."""

    value: float
    slopes: tuple[float, ...]

    @property
    def singular(self) -> bool:
        """Whether there is no finite value or derivative, in any precision."""
        return not np.all(np.isfinite([self.value, *self.slopes]))

    def condition(self, numbers: Sequence[float]) -> float:
        """By how much the row magnifies a relative error of its arguments: sum |x f'(x) / f(x)|.

        Higham, Accuracy and Stability of Numerical Algorithms, section 1.6.
        """
        with np.errstate(all="ignore"):
            moved = np.abs(np.asarray(self.slopes) * np.asarray(numbers))
            return float(np.sum(moved) / abs(self.value))


def behaviour(node: Node, numbers: Sequence[float]) -> Behaviour | None:
    """The row of an elementwise `node` at scalar arguments; None for any other operation."""
    from gradcheck_cli.engines.reference import ReferenceEngine

    if node.op in (CONSTANT, CUSTOM, INPUT) or not elementwise(node.op):
        return None
    if len(numbers) != len(node.args) or not np.all(np.isfinite(numbers)):
        return None
    kinds = {"bool": bool, "int": np.int64, "float": np.float64}
    wants = node.wants or ("float",) * len(numbers)
    one = alone(node, [np.asarray(n, dtype=kinds[w]) for n, w in zip(numbers, wants, strict=True)])
    answer = ReferenceEngine().evaluate(
        Problem(one.program, one.values, one.wrt, "float64", "float64", "reverse")
    )
    if answer.failure is not None or answer.output is None:
        return None
    slopes = []
    for name in one.values:
        found = answer.gradients.get(name)
        slopes.append(
            0.0 if found is None or found.values is None else float(np.ravel(found.values)[0])
        )
    return Behaviour(float(np.ravel(answer.output)[0]), tuple(slopes))

"""Plain difference quotients, to look at: what a derivative is when it is computed that way.

The truth never comes from here (`truth.differences` extrapolates, with error bars).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Gradient, Problem, TrainingProblem
from gradcheck_cli.engines.adapter import AnsweringEngine
from gradcheck_cli.engines.base import Capabilities, Unsupported
from gradcheck_cli.engines.modes import Answer
from gradcheck_cli.engines.reference import ReferenceEngine
from gradcheck_cli.engines.walker import prepare


class FiniteDifferenceEngine(AnsweringEngine):
    """Forward or central differences of values that the reference engine computes in the dtype.

    Truncation O(h) or O(h^2), rounding O(eps/h).
    """

    capabilities = Capabilities(
        name="finite-difference",
        distributions=(),
        install="pip install gradcheck-cli",
        modes=("forward",),
        orders=(1,),
        by_default=False,
        remark="difference quotients in the dtype, by --difference-scheme and --difference-step, "
        "to see what they give; how far they are off is GC304",
    )

    def __init__(self) -> None:
        self._reference = ReferenceEngine()

    def load(self) -> str:
        return self._reference.load()

    def operations(self) -> frozenset[str]:
        return self._reference.operations()

    def lacks(self, error: BaseException) -> bool:
        return False

    def differentiate(self, problem: Problem, answer: Answer) -> None:
        framework = self._reference.framework(problem.dtype)
        prepared = prepare(problem.program, framework, problem.rounding)
        inputs = {name: framework.array(problem.values[name]) for name in problem.program.inputs}

        def value(name: str, moved: Any) -> Any:
            answer.forward += 1
            given = {**inputs, name: moved}
            return prepared.run(list(given.values()))[problem.program.output]

        y = value(problem.wrt[0], inputs[problem.wrt[0]])
        answer.output = framework.numpy(y)
        central = problem.difference.scheme == "central"
        steps: dict[str, float] = {}
        for name in problem.wrt:
            x = inputs[name]
            h = steps[name] = step_of(problem, name)
            step = np.asarray(h, dtype=x.dtype)
            columns = []
            for direction in _directions(problem, name):
                move = step * framework.array(direction)
                above = value(name, x + move)
                below = value(name, x - move) if central else y
                quotient = (above - below) / (step + step if central else step)
                columns.append(framework.numpy(np.asarray(quotient)).reshape(-1))
            answer.gradients[name] = Gradient(np.stack(columns, axis=1), problem.dtype)
        answer.approximation = _told(problem, steps)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        raise Unsupported("difference quotients are shown at a point, and train nothing")


def step_of(problem: Problem, name: str) -> float:
    """The step for an input: as stated, else sqrt(eps) or cbrt(eps) at the input's size, where
    truncation and rounding are about as large as each other (Press et al., Numerical Recipes, 3rd
    ed. 2007, section 5.7); a power of two, so that it is exact."""
    if problem.difference.step is not None:
        return problem.difference.step
    x = np.asarray(problem.values[name], dtype=np.float64)
    size = max(1.0, float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x))))
    root = 3 if problem.difference.scheme == "central" else 2
    exponent = math.log2(2 * _format(problem).unit_roundoff) / root + math.log2(size)
    return float(2.0 ** round(exponent))


def _format(problem: Problem) -> FloatFormat:
    return FORMATS[problem.dtype]


def _directions(problem: Problem, name: str) -> Iterator[Array]:
    shape = np.shape(problem.values[name])
    columns = (problem.projection.columns or {}).get(name)
    yield from np.eye(math.prod(shape)).reshape(-1, *shape) if columns is None else columns


def _told(problem: Problem, steps: dict[str, float]) -> str:
    """`central difference, h = 6.1e-06`"""
    distinct = sorted(set(steps.values()))
    sizes = " to ".join(f"{h:.3g}" for h in dict.fromkeys((distinct[0], distinct[-1])))
    return f"{problem.difference.scheme} difference, h = {sizes}"

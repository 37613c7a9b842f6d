"""Plain difference quotients, to show what a derivative computed in this way looks like.

They are never used as the truth (`truth.numerics.differences` extrapolates, with error bars).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Gradient, Problem, Scheme, TrainingProblem
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.adapter import AnsweringEngine
from gradcheck_cli.engines.kit.modes import Answer
from gradcheck_cli.engines.kit.walker import prepare
from gradcheck_cli.engines.reference.engine import ReferenceEngine


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
        remark="finite differences in the dtype, by --difference-scheme and --difference-step; "
        "GC304 shows how far off they are",
    )

    def __init__(self) -> None:
        self._reference = ReferenceEngine()

    def load(self) -> str:
        return self._reference.load()

    def operations(self) -> frozenset[str]:
        return self._reference.operations()

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
        steps: set[float] = set()
        for name in problem.wrt:
            x = inputs[name]
            columns = []
            for direction, h in _directions(problem, name):
                steps.add(h)
                step = np.asarray(h, dtype=x.dtype)
                move = step * framework.array(direction)
                above = value(name, x + move)
                below = value(name, x - move) if central else y
                quotient = (above - below) / (step + step if central else step)
                columns.append(framework.numpy(np.asarray(quotient)).reshape(-1))
            answer.gradients[name] = Gradient(np.stack(columns, axis=1), problem.dtype)
        answer.approximation = _scheme_words(problem, steps)

    def descend(
        self, problem: TrainingProblem, losses: list[Array], path: dict[str, list[Array]]
    ) -> None:
        raise Unsupported("finite differences are for a point, not for training")


def usual_step(dtype: str, scheme: Scheme, size: Array) -> Array:
    """sqrt(eps) or cbrt(eps) times the size of the numbers, or times 1 if they are smaller. At this
    step truncation and rounding errors are about equal (Press et al., Numerical Recipes, 3rd ed.
    2007, section 5.7). A power of two, so that it is exact."""
    root = 3 if scheme == "central" else 2
    scale = np.maximum(1.0, np.where(np.isfinite(size), np.abs(size), 1.0))
    exponent = math.log2(2 * FORMATS[dtype].unit_roundoff) / root + np.log2(scale)
    return np.asarray(2.0 ** np.round(exponent))


def _directions(problem: Problem, name: str) -> Iterator[tuple[Array, float]]:
    """Each direction with its step: the given one, or the default for the size of the entry, or of
    the largest entry if the direction moves all of them."""
    x, wanted = np.asarray(problem.values[name], dtype=np.float64), problem.difference
    usual = usual_step(problem.dtype, wanted.scheme, x)
    steps = usual if wanted.step is None else np.full(x.shape, wanted.step)
    columns = (problem.projection.columns or {}).get(name)
    if columns is None:
        yield from zip(np.eye(x.size).reshape(-1, *x.shape), map(float, steps.flat), strict=True)
    else:
        largest = float(np.max(steps, initial=0.0))
        yield from ((direction, largest) for direction in columns)


def _scheme_words(problem: Problem, steps: set[float]) -> str:
    """`central difference, h = 6.1e-06`"""
    ends = dict.fromkeys((min(steps, default=0.0), max(steps, default=0.0)))
    return f"{problem.difference.scheme} difference, h = {' to '.join(f'{h:.3g}' for h in ends)}"

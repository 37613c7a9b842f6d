"""The part of an engine that a framework supplies: arrays, and derivatives of functions of
arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Problem, TrainingProblem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.derivatives import Derivatives
from gradcheck_cli.engines.kit.walker import Arrays

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder


class Framework(Arrays, Derivatives, Protocol):
    """One framework in one dtype. `compiles`: functions are compiled, once for arrays of the same
    shapes."""

    compiles: bool

    def leaf(self, values: Array) -> Any:
        """A floating array that is differentiated with respect to."""

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        """parameter - rate * gradient, outside of the graph, ready for the next step."""

    def recorder(self) -> Recorder:
        """Records the operations of one run. Raises Unsupported if that is impossible; blame then
        uses the nodes of the program and is not proven."""


def arrays_of(
    fw: Framework, problem: Problem | TrainingProblem, moving: Sequence[str]
) -> dict[str, Any]:
    """The inputs as arrays of the framework. Those in `moving` are differentiated."""
    return {
        name: (fw.leaf if name in moving else fw.array)(problem.values[name])
        for name in problem.program.inputs
    }


def scalar(fw: Framework, program: Program, problem: Problem) -> Any:
    """The cotangent that makes a scalar from the output."""
    if problem.projection.rows is not None:
        return fw.array(problem.projection.rows[0])
    shape = program.result.shape
    if int(np.prod(shape)) != 1:
        raise ValueError("second derivatives of an output with several entries need a cotangent")
    return fw.array(np.ones(shape))

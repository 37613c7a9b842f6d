"""What a framework contributes to an engine: arrays, and derivatives of functions of them."""

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
    """One framework in one dtype. `compiles`: functions are compiled, each once for arrays of the
    same shapes."""

    compiles: bool

    def leaf(self, values: Array) -> Any:
        """A floating array whose derivatives are wanted."""
        ...

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        """parameter - rate * gradient outside the graph, ready for the next step."""
        ...

    def recorder(self) -> Recorder:
        """Writes down the operations of one run. Raises Unsupported where it cannot: then blame
        rests on the program's nodes and is not proven."""
        ...


def arrays_of(
    fw: Framework, problem: Problem | TrainingProblem, moving: Sequence[str]
) -> dict[str, Any]:
    """The inputs as the framework has them; those that are `moving` are differentiated."""
    return {
        name: (fw.leaf if name in moving else fw.array)(problem.values[name])
        for name in problem.program.inputs
    }


def scalar(fw: Framework, program: Program, problem: Problem) -> Any:
    """The cotangent that makes a scalar of the output."""
    if problem.projection.rows is not None:
        return fw.array(problem.projection.rows[0])
    shape = program.result.shape
    if int(np.prod(shape)) != 1:
        raise ValueError("second derivatives of an output with several entries need a cotangent")
    return fw.array(np.ones(shape))

"""Checks whether the answer of an engine, possibly a plug-in, fits the question."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.evaluation import (
    FIRST_ORDER,
    Evaluation,
    Gradient,
    Problem,
    Training,
    TrainingProblem,
)
from gradcheck_cli.engines.errors import EngineFault, WrongKind


def evaluation(answer: object, problem: Problem, engine: str) -> Evaluation:
    """The answer to a problem. Raises EngineFault if it is not an answer to it."""
    if not isinstance(answer, Evaluation):
        raise EngineFault(f"it answers with {_kind(answer)}, not with an Evaluation")
    told = (answer.engine, answer.dtype, answer.rounding, answer.mode)
    asked = (engine, problem.dtype, problem.rounding, problem.mode)
    if told != asked:
        raise EngineFault(f"it was asked for {' '.join(asked)}, but answers for {' '.join(told)}")
    if answer.failure is not None:
        return answer
    program = problem.program
    _array("the output", answer.output, program.result.shape)
    for name in problem.wrt if problem.mode in FIRST_ORDER else ():
        if name not in answer.gradients:
            raise EngineFault(f"it does not answer for the gradient of `{name}`")
    for name, gradient in answer.gradients.items():
        _gradient(gradient, problem, name)
    return answer


def _gradient(gradient: object, problem: Problem, name: str) -> None:
    if not isinstance(gradient, Gradient):
        words = f"the gradient of `{name}` is {_kind(gradient)}, but should be a Gradient"
        raise EngineFault(words)
    if gradient.values is not None:
        what = f"the gradient of `{name}` (rows, columns)"
        _array(what, gradient.values, _shape(problem, name))


def training(answer: object, problem: TrainingProblem, engine: str) -> Training:
    """The answer to a training problem. Raises EngineFault if it is not an answer to it."""
    if not isinstance(answer, Training) or (answer.engine, answer.dtype) != (engine, problem.dtype):
        words = f"{engine} in {problem.dtype}"
        raise EngineFault(f"it answers with {_kind(answer)}, not with the Training of {words}")
    if answer.failure is None:
        _array("the losses", answer.losses, (problem.steps + 1,))
        for name in problem.parameters:
            shape = (problem.steps + 1, *np.shape(problem.values[name]))
            _array(f"the path of `{name}`", answer.parameters.get(name), shape)
    return answer


def _kind(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype}"
    name = type(answer).__name__
    return "None" if answer is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _array(what: str, value: object, shape: tuple[int, ...]) -> None:
    if not isinstance(value, np.ndarray | np.floating) or value.dtype != np.float64:
        raise WrongKind(f"{what} is {_kind(value)}, but should be a float64 array")
    if value.shape != shape:
        raise WrongKind(f"{what} has shape {value.shape}, but should have {shape}")


def _shape(problem: Problem, name: str) -> tuple[int, int]:
    """The shape of a block of the Jacobian or of the Hessian (`Projection`)."""
    rows, columns = problem.projection.rows, problem.projection.columns or {}
    if problem.mode == "reverse":
        return _size(problem) if rows is None else len(rows), np.size(problem.values[name])
    block = None if name in problem.values else HessianBlock.named(name, problem.wrt)
    by = name if block is None else block.columns
    along = len(columns[by]) if by in columns else np.size(problem.values[by])
    if block is None:
        return _size(problem), along
    firsts = problem.projection.firsts or {}
    own = np.size(problem.values[block.rows])
    return len(firsts[block.rows]) if block.rows in firsts else own, along


def _size(problem: Problem) -> int:
    shape = problem.program.result.shape
    return int(np.prod(shape, dtype=np.int64))

"""Reverse and forward mode, first and second order, and training: once, for every framework.

A framework contributes its op table, its arrays and two contexts (`tape` and `tangent`); the order
in which passes are run, and how their results make a Jacobian, is the same for all and stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Gradient, Mode, Problem, Trace, TrainingProblem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import WrongShape
from gradcheck_cli.engines.framework import Framework, Tape
from gradcheck_cli.engines.tracing import with_operations
from gradcheck_cli.engines.walker import Prepared, round_constant


@dataclass(slots=True)
class Answer:
    """What the passes gave so far, and how many there were."""

    output: Array | None = None
    gradients: dict[str, Gradient] = field(default_factory=dict)
    trace: Trace | None = None
    forward: int = 0
    backward: int = 0


def _inputs(fw: Framework, problem: Problem) -> dict[str, Any]:
    return {
        name: fw.leaf(problem.values[name])
        if name in problem.wrt
        else fw.array(problem.values[name])
        for name in problem.program.inputs
    }


def _run(
    prepared: Prepared, inputs: Mapping[str, Any], names: Sequence[str], watched: Sequence[Any]
) -> list[Any]:
    """Every node's value, with the watched arrays in the places of the inputs `names`."""
    moved = {**inputs, **dict(zip(names, watched, strict=True))}
    return prepared.run([moved[name] for name in prepared.program.inputs])


def _unit(size: int, shape: tuple[int, ...]) -> Iterator[Array]:
    """The rows of the identity, each in `shape`."""
    for i in range(size):
        row = np.zeros(size)
        row[i] = 1.0
        yield row.reshape(shape)


def _directions(given: Array | None, shape: tuple[int, ...]) -> Iterator[Array]:
    if given is None:
        yield from _unit(int(np.prod(shape, dtype=np.int64)), shape)
    else:
        yield from given


def _gradient(
    fw: Framework, parts: Sequence[Any], shape: tuple[int, ...], along: int, what: str
) -> Gradient:
    """Stacks rows (along = 0) or columns (along = 1), each of `shape` or None.

    Raises WrongShape where the framework's own array has another shape.
    """
    size = int(np.prod(shape, dtype=np.int64))
    if not parts:
        return Gradient(np.zeros((0, size) if along == 0 else (size, 0)))
    if all(part is None for part in parts):
        return Gradient(None)
    flat: list[Array] = []
    dtype = None
    for part in parts:
        if part is None:
            flat.append(np.zeros(size))
            continue
        if tuple(part.shape) != shape:
            raise WrongShape("the framework", what, shape, tuple(part.shape))
        dtype = fw.dtype_of(part)
        flat.append(fw.numpy(part).reshape(size))
    return Gradient(np.stack(flat, axis=along), dtype)


def _traced(
    fw: Framework, program: Program, values: Sequence[Any], derivative: Mapping[int, Any]
) -> Trace:
    return Trace(
        {
            i: fw.numpy(values[i]) if hasattr(values[i], "shape") else np.asarray(values[i])
            for i in range(len(program.nodes))
        },
        {i: fw.numpy(value) for i, value in derivative.items() if value is not None},
    )


def _cotangents(
    fw: Framework, program: Program, values: Sequence[Any], tape: Tape, cotangent: Any
) -> dict[int, Any]:
    """The cotangent of every floating node that the tape knows."""
    indices = [
        i
        for i, node in enumerate(program.nodes)
        if node.kind == "float" and hasattr(values[i], "shape")
    ]
    grads = tape.gradient(values[program.output], [values[i] for i in indices], cotangent, False)
    return dict(zip(indices, grads, strict=True))


def _reverse(fw: Framework, prepared: Prepared, problem: Problem, answer: Answer) -> None:
    program = prepared.program
    inputs = _inputs(fw, problem)
    with fw.tape([inputs[name] for name in problem.wrt]) as (tape, wanted):
        values = _run(prepared, inputs, problem.wrt, wanted)
        y = values[program.output]
    answer.forward += 1
    answer.output = fw.numpy(y)
    passes: list[list[Any]] = []
    rows = list(_directions(problem.projection.rows, tuple(y.shape)))
    for row in rows:
        passes.append(tape.gradient(y, wanted, fw.array(row), False))
        answer.backward += 1
    for position, name in enumerate(problem.wrt):
        parts = [grads[position] for grads in passes]
        shape = tuple(wanted[position].shape)
        answer.gradients[name] = _gradient(fw, parts, shape, 0, name)
    if problem.trace is not None:
        cotangent = fw.array(rows[problem.trace.row])
        found = _cotangents(fw, program, values, tape, cotangent)
        trace = _traced(fw, program, values, found)
        answer.trace = with_operations(fw, prepared, problem, trace, _block(problem, answer))
        answer.backward += 1


def _block(problem: Problem, answer: Answer) -> Array | None:
    """The gradient that is traced."""
    assert problem.trace is not None
    return answer.gradients[problem.trace.input or problem.wrt[0]].values


def _forward(fw: Framework, prepared: Prepared, problem: Problem, answer: Answer) -> None:
    program = prepared.program
    trace = problem.trace
    plain = {name: fw.array(problem.values[name]) for name in program.inputs}
    columns = problem.projection.columns or {}
    for name in problem.wrt:
        parts: list[Any] = []
        shape: tuple[int, ...] = ()
        for i, column in enumerate(_directions(columns.get(name), tuple(plain[name].shape))):
            with fw.tangent(plain[name], fw.array(column)) as (dual, pushed):
                values = _run(prepared, plain, [name], [dual])
                y = values[program.output]
                parts.append(pushed(y))
                answer.forward += 1
                shape = tuple(y.shape)
                if answer.output is None:
                    answer.output = fw.numpy(y)
                if trace and trace.input in (name, None) and trace.column == i:
                    derivative = {
                        k: pushed(values[k])
                        for k, node in enumerate(program.nodes)
                        if node.kind == "float" and hasattr(values[k], "shape")
                    }
                    if answer.trace is None:
                        answer.trace = _traced(fw, program, values, derivative)
        answer.gradients[name] = _gradient(fw, parts, shape, 1, name)
    if answer.trace is not None:
        block = _block(problem, answer)
        answer.trace = with_operations(fw, prepared, problem, answer.trace, block)


def _scalar(fw: Framework, y: Any, problem: Problem) -> Any:
    """The cotangent that makes a scalar of the output."""
    if problem.projection.rows is not None:
        return fw.array(problem.projection.rows[0])
    if y.shape and int(np.prod(y.shape)) != 1:
        raise ValueError("second derivatives of an output with several entries need a cotangent")
    return fw.array(np.ones(tuple(y.shape)))


def _reverse_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    program = prepared.program
    inputs = _inputs(fw, problem)
    columns = problem.projection.columns
    with fw.tape([inputs[name] for name in problem.wrt]) as (outer, wanted):
        with fw.tape(wanted) as (inner, watched):
            values = _run(prepared, inputs, problem.wrt, watched)
            y = values[program.output]
        cotangent = _scalar(fw, y, problem)
        first = inner.gradient(y, watched, cotangent, True)
        if columns is not None:
            # <ds/db, v> is differentiated again: one pass gives column v of every block "a.b".
            products = {
                b: [None if g is None else fw.inner(g, fw.array(v)) for v in columns[b]]
                for b, g in zip(problem.wrt, first, strict=True)
            }
    answer.forward += 1
    answer.backward += 1
    answer.output = fw.numpy(y)
    if problem.trace is not None:
        found = _cotangents(fw, program, values, inner, cotangent)
        answer.trace = _traced(fw, program, values, found)
    sources = list(zip(problem.wrt, wanted, strict=True))
    one = fw.array(np.ones(()))
    for (name, source), g in zip(sources, first, strict=True):
        passes: list[list[Any]] = []
        if columns is None:
            for row in _unit(int(np.prod(source.shape, dtype=np.int64)), tuple(source.shape)):
                passes.append(_again(outer, g, wanted, fw.array(row), answer))
        else:
            for product in products[name]:
                passes.append(_again(outer, product, wanted, one, answer))
        for position, (other, array) in enumerate(sources):
            block, along = (f"{name}.{other}", 0) if columns is None else (f"{other}.{name}", 1)
            parts = [grads[position] for grads in passes]
            answer.gradients[block] = _gradient(fw, parts, tuple(array.shape), along, block)


def _again(
    tape: Tape, target: Any, wanted: Sequence[Any], cotangent: Any, answer: Answer
) -> list[Any]:
    if target is None:  # no first gradient, so nothing to differentiate
        return [None] * len(wanted)
    answer.backward += 1
    return tape.gradient(target, wanted, cotangent, False)


def _forward_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    program = prepared.program
    inputs = _inputs(fw, problem)
    columns = problem.projection.columns or {}
    for b in problem.wrt:
        passes: list[list[Any]] = []
        for column in _directions(columns.get(b), tuple(inputs[b].shape)):
            with fw.tangent(inputs[b], fw.array(column)) as (dual, pushed):
                moved = {**inputs, b: dual}
                with fw.tape([moved[name] for name in problem.wrt]) as (tape, wanted):
                    values = _run(prepared, moved, problem.wrt, wanted)
                    y = values[program.output]
                cotangent = _scalar(fw, y, problem)
                first = tape.gradient(y, wanted, cotangent, True)
                passes.append([None if g is None else pushed(g) for g in first])
                answer.forward += 1
                answer.backward += 1
                if answer.output is None:
                    answer.output = fw.numpy(y)
                if problem.trace is not None and answer.trace is None:
                    found = _cotangents(fw, program, values, tape, cotangent)
                    answer.trace = _traced(fw, program, values, found)
        for position, a in enumerate(problem.wrt):
            parts = [grads[position] for grads in passes]
            shape = tuple(inputs[a].shape)
            answer.gradients[f"{a}.{b}"] = _gradient(fw, parts, shape, 1, f"{a}.{b}")


MODES: dict[Mode, Callable[[Framework, Prepared, Problem, Answer], None]] = {
    "reverse": _reverse,
    "forward": _forward,
    "reverse-over-reverse": _reverse_over_reverse,
    "forward-over-reverse": _forward_over_reverse,
}


def descend(
    fw: Framework,
    prepared: Prepared,
    problem: TrainingProblem,
    losses: list[Array],
    path: dict[str, list[Array]],
) -> None:
    """Gradient descent; the loss and the parameters before each step and after the last."""
    program = prepared.program
    rate = float(round_constant(float(problem.rate), problem.rounding, False))
    inputs = {
        name: fw.leaf(problem.values[name])
        if name in problem.parameters
        else fw.array(problem.values[name])
        for name in program.inputs
    }
    for step in range(problem.steps + 1):
        with fw.tape([inputs[name] for name in problem.parameters]) as (tape, wanted):
            loss = _run(prepared, inputs, problem.parameters, wanted)[program.output]
        losses.append(fw.numpy(loss).reshape(()))
        for name, array in zip(problem.parameters, wanted, strict=True):
            path[name].append(fw.numpy(array))
        if step == problem.steps:
            return
        grads = tape.gradient(loss, wanted, fw.array(np.ones(tuple(loss.shape))), False)
        for name, grad in zip(problem.parameters, grads, strict=True):
            if grad is None:
                raise ValueError(f"there is no gradient for the parameter `{name}`")
            inputs[name] = fw.descend(inputs[name], grad, rate)

"""Reverse and forward mode, and training, for all frameworks.

A framework supplies its op table, its arrays, and `vjp` and `jvp` of functions of them. This module
decides the order of passes, and how their results form a Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Gradient, Mode, Problem, Trace, TrainingProblem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass, traceable_dataclass
from gradcheck_cli.engines.derivatives import Closure, Mark, Targets
from gradcheck_cli.engines.errors import WrongShape
from gradcheck_cli.engines.kit.framework import Framework, arrays_of
from gradcheck_cli.engines.kit.walker import Prepared, round_constant


@dataclass(slots=True)
class Answer:
    """The results of the passes so far, and how many there were."""

    output: Array | None = None
    gradients: dict[str, Gradient] = field(default_factory=dict)
    trace: Trace | None = None
    forward: int = 0
    backward: int = 0
    approximation: str = ""


def _run(
    prepared: Prepared,
    inputs: Mapping[str, Any],
    names: Sequence[str],
    moved: Sequence[Any],
    mark: Mark | None = None,
) -> list[Any]:
    """The value of every node, with the arrays `moved` in place of the inputs `names`. `mark` marks
    every floating value with its node."""
    program = prepared.program
    given = {**inputs, **dict(zip(names, moved, strict=True))}
    if mark is None:
        return prepared.run([given[name] for name in program.inputs])

    def marked(index: int, value: Any) -> Any:
        floating = program.nodes[index].kind == "float" and hasattr(value, "shape")
        return mark(index, value) if floating else value

    own = [marked(index, given[name]) for name, index in program.inputs.items()]
    return prepared.run(own, leave=marked)


def directions_of(given: Array | None, shape: tuple[int, ...]) -> Iterator[Array]:
    if given is None:
        size = int(np.prod(shape, dtype=np.int64))
        for i in range(size):  # the rows of the identity
            row = np.zeros(size)
            row[i] = 1.0
            yield row.reshape(shape)
    else:
        yield from given


def stacked(
    fw: Framework, parts: Sequence[Any], shape: tuple[int, ...], along: int, what: str
) -> Gradient:
    """Stacks rows (along = 0) or columns (along = 1), each of `shape` or None.

    Raises WrongShape if an array of the framework has another shape.
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


def trace_of(
    fw: Framework, program: Program, values: Sequence[Any], derivative: Mapping[int, Any]
) -> Trace:
    return Trace(
        {
            i: fw.numpy(values[i]) if hasattr(values[i], "shape") else np.asarray(values[i])
            for i in range(len(program.nodes))
        },
        {i: fw.numpy(value) for i, value in derivative.items() if value is not None},
    )


@traceable_dataclass(frozen=True, slots=True)
class OutputCode:
    """The code that computes the output of a program from its inputs `names`; if it is traced, with
    the value of every node."""

    prepared: Prepared
    names: tuple[str, ...]
    traced: bool

    def __call__(self, inputs: Mapping[str, Any], moved: Sequence[Any], mark: Mark) -> Targets:
        values = _run(self.prepared, inputs, self.names, moved, mark if self.traced else None)
        return [values[self.prepared.program.output]], values if self.traced else None


@traceable_dataclass(frozen=True, slots=True)
class NodesCode:
    """The code that computes the nodes `wanted` from the inputs `names`; if it is traced, with the
    value of every node."""

    prepared: Prepared
    names: tuple[str, ...]
    wanted: tuple[int, ...]
    traced: bool = False

    def __call__(self, inputs: Mapping[str, Any], duals: Sequence[Any]) -> Targets:
        values = _run(self.prepared, inputs, self.names, duals)
        targets = [values[k] if hasattr(values[k], "shape") else None for k in self.wanted]
        return targets, values if self.traced else None


def _reverse(fw: Framework, prepared: Prepared, problem: Problem, answer: Answer) -> None:
    program = prepared.program
    inputs = arrays_of(fw, problem, problem.wrt)
    sources = [inputs[name] for name in problem.wrt]
    traced = problem.trace is not None
    code = OutputCode(prepared, tuple(problem.wrt), traced)
    (y,), values, vjp = fw.vjp(Closure(code, inputs, traced), sources)
    answer.forward += 1
    answer.output = fw.numpy(y)
    passes: list[list[Any]] = []
    marked: dict[int, Any] = {}
    for i, row in enumerate(directions_of(problem.projection.rows, tuple(y.shape))):
        if problem.trace is not None and problem.trace.row == i:
            grads, marked = vjp.with_marked([fw.array(row)])
        else:
            grads = vjp([fw.array(row)])
        passes.append(grads)
        answer.backward += 1
    for position, name in enumerate(problem.wrt):
        parts = [grads[position] for grads in passes]
        answer.gradients[name] = stacked(fw, parts, tuple(sources[position].shape), 0, name)
    if problem.trace is not None:
        trace = trace_of(fw, program, values, marked)
        answer.trace = trace
        trace_operations(fw, prepared, problem, answer)


def _block(problem: Problem, answer: Answer) -> Array | None:
    """The gradient, or the block of second derivatives, that is traced."""
    trace = problem.trace
    assert trace is not None
    name = trace.input or problem.wrt[0]
    if trace.first is not None:
        name = str(HessianBlock(trace.first, name))
    return answer.gradients[name].values


Still = Callable[[Any], Any]
"""Gives the tangent of an array that does not move."""


def compiled_once(fw: Framework, passes: Callable[[Still], list[list[Any]]]) -> list[list[Any]]:
    """The results of `passes`. Constant inputs have no tangent. If functions are compiled, they
    have a tangent of zeros instead, so that one compilation serves all inputs. If a result is not
    finite, zero times infinity may be the reason, and they have no tangent after all."""
    results = passes(lambda array: fw.array(np.zeros(array.shape)) if fw.compiles else None)
    parts = (part for one in results for part in one if part is not None) if fw.compiles else ()
    is_finite = all(bool(np.all(np.isfinite(fw.numpy(part)))) for part in parts)
    return results if is_finite else passes(lambda _: None)


def tangents_for(
    fw: Framework,
    arrays: Mapping[str, Any],
    names: Sequence[str],
    moving: str,
    x_dot: Array,
    still: Still,
) -> list[Any]:
    """A tangent for each of the inputs `names`, of which only `moving` changes."""
    return [fw.array(x_dot) if name == moving else still(arrays[name]) for name in names]


def _forward(fw: Framework, prepared: Prepared, problem: Problem, answer: Answer) -> None:
    program, names = prepared.program, tuple(problem.wrt)
    plain = arrays_of(fw, problem, ())
    columns = problem.projection.columns or {}
    function = Closure(NodesCode(prepared, names, (program.output,)), plain)
    primals = [plain[name] for name in names]
    for name in names:
        shape: tuple[int, ...] = ()

        def passes(still: Still, name: str = name) -> list[list[Any]]:
            nonlocal shape
            rows: list[list[Any]] = [[]]
            for column in directions_of(columns.get(name), tuple(plain[name].shape)):
                x_dots = tangents_for(fw, plain, names, name, column, still)
                (y,), (tangent,), _ = fw.jvp(function, primals, x_dots)
                rows[0].append(tangent)
                answer.forward += 1
                shape = tuple(y.shape)
                if answer.output is None:
                    answer.output = fw.numpy(y)
            return rows

        (parts,) = compiled_once(fw, passes)
        answer.gradients[name] = stacked(fw, parts, shape, 1, name)
    trace_tangents(fw, prepared, problem, answer)


def trace_tangents(fw: Framework, prepared: Prepared, problem: Problem, answer: Answer) -> None:
    """The value of every node, and its tangent along the traced direction, if that is requested."""
    trace, program = problem.trace, prepared.program
    if trace is None:
        return
    name = trace.input or problem.wrt[0]
    arrays = arrays_of(fw, problem, ())
    given = (problem.projection.columns or {}).get(name)
    columns = directions_of(given, tuple(arrays[name].shape))
    column = next(islice(columns, trace.column, None))
    floating = tuple(k for k, node in enumerate(program.nodes) if node.kind == "float")
    nodes = Closure(NodesCode(prepared, (name,), floating, True), arrays)
    _, tangents, values = fw.jvp(nodes, [arrays[name]], [fw.array(column)])
    answer.trace = trace_of(fw, program, values, dict(zip(floating, tangents, strict=True)))
    trace_operations(fw, prepared, problem, answer)


def trace_operations(fw: Framework, prepared: Prepared, problem: Problem, answer: Answer) -> None:
    """Adds the executed operations to the trace, if there is one."""
    if answer.trace is not None:
        # imported by what is not right: a run in which all is right starts sooner without
        from gradcheck_cli.engines.kit.run_traced import with_operations

        block = _block(problem, answer)
        answer.trace = with_operations(fw, prepared, problem, answer.trace, block)


Differentiate = Callable[[Framework, Prepared, Problem, Answer], None]
"""Runs the passes of a problem, and puts what they give into the answer."""

MODES: dict[Mode, Differentiate] = {"reverse": _reverse, "forward": _forward}


def descend(
    fw: Framework,
    prepared: Prepared,
    problem: TrainingProblem,
    losses: list[Array],
    path: dict[str, list[Array]],
) -> None:
    """Gradient descent: the loss and the parameters before each step, and after the last."""
    rate = float(round_constant(float(problem.rate), problem.rounding, False))
    inputs = arrays_of(fw, problem, problem.parameters)
    code = OutputCode(prepared, tuple(problem.parameters), False)
    for step in range(problem.steps + 1):
        parameters = [inputs[name] for name in problem.parameters]
        (loss,), _, vjp = fw.vjp(Closure(code, inputs), parameters)
        losses.append(fw.numpy(loss).reshape(()))
        for name in problem.parameters:
            path[name].append(fw.numpy(inputs[name]))
        if step == problem.steps:
            return
        grads = vjp([fw.array(np.ones(tuple(loss.shape)))])
        for name, grad in zip(problem.parameters, grads, strict=True):
            if grad is None:
                raise ValueError(f"there is no gradient for the parameter `{name}`")
            inputs[name] = fw.descend(inputs[name], grad, rate)

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
    by_name = {**inputs, **dict(zip(names, moved, strict=True))}
    if mark is None:
        return prepared.run([by_name[name] for name in program.inputs])

    def marked(index: int, value: Any) -> Any:
        floating = program.nodes[index].kind == "float" and hasattr(value, "shape")
        return mark(index, value) if floating else value

    own = [marked(index, by_name[name]) for name, index in program.inputs.items()]
    return prepared.run(own, leave=marked)


def directions_of(directions: Array | None, shape: tuple[int, ...]) -> Iterator[Array]:
    if directions is None:
        size = int(np.prod(shape, dtype=np.int64))
        for i in range(size):  # the rows of the identity
            row = np.zeros(size)
            row[i] = 1.0
            yield row.reshape(shape)
    else:
        yield from directions


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


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of a problem over a prepared program, whose results are put into the answer."""

    fw: Framework
    prepared: Prepared
    problem: Problem
    answer: Answer

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.problem.wrt)

    def arrays(self, tracked: Sequence[str] = ()) -> dict[str, Any]:
        """The inputs. Reverse mode follows those that are `tracked`."""
        return arrays_of(self.fw, self.problem, tracked)

    def output(self, arrays: dict[str, Any]) -> Closure:
        """The output of the program as a function of the differentiated inputs."""
        wanted = (self.prepared.program.output,)
        return Closure(NodesCode(self.prepared, self.names, wanted), arrays)

    def tangents(
        self, arrays: Mapping[str, Any], moving: str, x_dot: Array, still: Still
    ) -> list[Any]:
        """A tangent for each of the differentiated inputs, of which only `moving` changes."""
        return [
            self.fw.array(x_dot) if name == moving else still(arrays[name]) for name in self.names
        ]

    def columns(self, name: str, arrays: Mapping[str, Any]) -> Iterator[Array]:
        """The directions of an input."""
        given = (self.problem.projection.columns or {}).get(name)
        return directions_of(given, tuple(arrays[name].shape))

    def by_column(
        self, arrays: Mapping[str, Any], name: str, forward: Callable[[list[Any]], list[Any]]
    ) -> list[list[Any]]:
        """The results of `forward` along each direction of an input. It receives a tangent for each
        of the differentiated inputs."""

        def passes(still: Still) -> list[list[Any]]:
            columns = self.columns(name, arrays)
            return [forward(self.tangents(arrays, name, one, still)) for one in columns]

        return compiled_once(self.fw, passes)

    def put(self, block: str, parts: Sequence[Any], shape: tuple[int, ...], along: int) -> None:
        """Put a gradient, or a block of second derivatives, into the answer (`stacked`)."""
        self.answer.gradients[block] = stacked(self.fw, parts, shape, along, block)

    def count(self, forward: int = 0, backward: int = 0) -> None:
        self.answer.forward += forward
        self.answer.backward += backward

    def put_output(self, y: Any) -> None:
        if self.answer.output is None:
            self.answer.output = self.fw.numpy(y)

    def trace_tangents(self) -> None:
        """Put the value of every node into the trace, and its tangent along the traced direction,
        if that is requested."""
        trace, program = self.problem.trace, self.prepared.program
        if trace is None:
            return
        name, arrays = trace.input or self.names[0], self.arrays()
        column = next(islice(self.columns(name, arrays), trace.column, None))
        floating = tuple(k for k, node in enumerate(program.nodes) if node.kind == "float")
        nodes = Closure(NodesCode(self.prepared, (name,), floating, True), arrays)
        _, tangents, values = self.fw.jvp(nodes, [arrays[name]], [self.fw.array(column)])
        along = dict(zip(floating, tangents, strict=True))
        self.answer.trace = trace_of(self.fw, program, values, along)
        self.trace_operations()

    def trace_operations(self) -> None:
        """Add the executed operations to the trace, if there is one."""
        if self.answer.trace is None:
            return
        # imported by what is not right: a run in which all is right starts sooner without
        from gradcheck_cli.engines.kit.run_traced import with_operations

        trace = self.problem.trace
        assert trace is not None
        name = trace.input or self.names[0]
        block = name if trace.first is None else str(HessianBlock(trace.first, name))
        values = self.answer.gradients[block].values
        self.answer.trace = with_operations(
            self.fw, self.prepared, self.problem, self.answer.trace, values
        )


def _reverse(run: Passes) -> None:
    fw, problem, answer = run.fw, run.problem, run.answer
    inputs = run.arrays(problem.wrt)
    sources = [inputs[name] for name in run.names]
    traced = problem.trace is not None
    code = OutputCode(run.prepared, run.names, traced)
    (y,), values, vjp = fw.vjp(Closure(code, inputs, traced), sources)
    run.count(forward=1)
    run.put_output(y)
    passes: list[list[Any]] = []
    marked: dict[int, Any] = {}
    for i, row in enumerate(directions_of(problem.projection.rows, tuple(y.shape))):
        if problem.trace is not None and problem.trace.row == i:
            grads, marked = vjp.with_marked([fw.array(row)])
        else:
            grads = vjp([fw.array(row)])
        passes.append(grads)
        run.count(backward=1)
    for position, name in enumerate(run.names):
        run.put(name, [grads[position] for grads in passes], tuple(sources[position].shape), 0)
    if traced:
        answer.trace = trace_of(fw, run.prepared.program, values, marked)
        run.trace_operations()


def _forward(run: Passes) -> None:
    plain = run.arrays()
    function, primals = run.output(plain), [plain[name] for name in run.names]
    shape: tuple[int, ...] = ()

    def forward(x_dots: list[Any]) -> list[Any]:
        nonlocal shape
        (y,), tangents, _ = run.fw.jvp(function, primals, x_dots)
        run.count(forward=1)
        run.put_output(y)
        shape = tuple(y.shape)
        return tangents

    for name in run.names:
        shape = ()
        run.put(name, [part for (part,) in run.by_column(plain, name, forward)], shape, 1)
    run.trace_tangents()


Differentiate = Callable[[Passes], None]

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

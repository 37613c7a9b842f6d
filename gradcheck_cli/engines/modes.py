"""Reverse and forward mode, first and second order, and training: once, for every framework.

A framework contributes its op table, its arrays and two contexts (`tape` and `tangent`); the order
in which passes are run, and how their results make a Jacobian, is the same for all and stands here.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import (
    Evaluation,
    Failure,
    Gradient,
    Mode,
    Problem,
    Trace,
    Training,
    TrainingProblem,
)
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import (
    Capabilities,
    EngineFault,
    NodeFault,
    Unsupported,
    WrongShape,
)
from gradcheck_cli.engines.walker import Arrays, Prepared, prepare, round_constant

_OURS = str(Path(__file__).parent)
_REMEMBERED = 64  # prepared programs: a task has one program in at most a few dtypes


class Tape(Protocol):
    def gradient(
        self, target: Any, sources: Sequence[Any], cotangent: Any, again: bool
    ) -> list[Any]:
        """One gradient a source, None where there is none. With `again` the gradients can be
        differentiated themselves. May be called many times."""
        ...


Pushed = Callable[[Any], Any]
"""Gives the tangent of a result, or None where none has reached it."""


class Framework(Arrays, Protocol):
    """One framework in one dtype."""

    def array(self, values: Array) -> Any:
        """Floats in the dtype, integers as int64, booleans as they are."""
        ...

    def leaf(self, values: Array) -> Any:
        """A floating array whose derivatives are wanted."""
        ...

    def numpy(self, array: Any) -> Array:
        """Floats exactly, in float64; integers and booleans as they are."""
        ...

    def dtype_of(self, array: Any) -> str: ...

    def tape(self, sources: Sequence[Any]) -> AbstractContextManager[tuple[Tape, list[Any]]]:
        """Records what is computed from the arrays that it gives in place of the sources."""
        ...

    def tangent(self, primal: Any, tangent: Any) -> AbstractContextManager[tuple[Any, Pushed]]:
        """Within the context, what is computed from the first result carries tangents."""
        ...

    def inner(self, a: Any, b: Any) -> Any:
        """<a, b> as a scalar array that can be differentiated."""
        ...

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        """parameter - rate * gradient outside the graph, ready for the next step."""
        ...


@dataclass(slots=True)
class _Answer:
    output: Array | None = None
    gradients: dict[str, Gradient] = field(default_factory=dict)
    trace: Trace | None = None
    forward: int = 0
    backward: int = 0


class ProgramEngine(ABC):
    """An engine that runs programs through a `Framework`. Subclasses import theirs in `load`."""

    capabilities: ClassVar[Capabilities]

    def __init__(self) -> None:
        self._prepared: dict[tuple[int, str, str], tuple[Framework, Prepared]] = {}

    @abstractmethod
    def load(self) -> str: ...

    @abstractmethod
    def framework(self, dtype: str) -> Framework: ...

    @abstractmethod
    def lacks(self, error: BaseException) -> bool:
        """Whether the framework says with this exception that it has no such op or dtype."""

    def refuses(self, program: Program, mode: Mode) -> str | None:
        return None

    def close(self) -> None:
        self._prepared.clear()

    def evaluate(self, problem: Problem) -> Evaluation:
        start = time.perf_counter()
        answer = _Answer()
        failure = None
        try:
            reason = self.refuses(problem.program, problem.mode)
            if reason is not None:
                raise Unsupported(reason)
            framework, prepared = self._prepare(problem.program, problem.dtype, problem.rounding)
            with np.errstate(all="ignore"):
                _MODES[problem.mode](framework, prepared, problem, answer)
        except Exception as error:
            failure = self._failure(error, problem.program, problem.dtype)
        return Evaluation(
            engine=self.capabilities.name,
            dtype=problem.dtype,
            rounding=problem.rounding,
            mode=problem.mode,
            output=None if failure else answer.output,
            gradients={} if failure else answer.gradients,
            failure=failure,
            trace=None if failure else answer.trace,
            forward=answer.forward,
            backward=answer.backward,
            duration_s=time.perf_counter() - start,
        )

    def train(self, problem: TrainingProblem) -> Training:
        start = time.perf_counter()
        losses: list[Array] = []
        path: dict[str, list[Array]] = {name: [] for name in problem.parameters}
        failure = None
        try:
            framework, prepared = self._prepare(problem.program, problem.dtype, problem.rounding)
            with np.errstate(all="ignore"):
                _descend(framework, prepared, problem, losses, path)
        except Exception as error:
            failure = self._failure(error, problem.program, problem.dtype)
        return Training(
            engine=self.capabilities.name,
            dtype=problem.dtype,
            losses=None if failure else np.asarray(losses, dtype=np.float64),
            parameters={} if failure else {name: np.stack(steps) for name, steps in path.items()},
            failure=failure,
            duration_s=time.perf_counter() - start,
        )

    def _prepare(self, program: Program, dtype: str, rounding: str) -> tuple[Framework, Prepared]:
        # By identity: the problems of a task share one program, and many nodes are slow to hash.
        key = (id(program), dtype, rounding)
        kept = self._prepared.get(key)
        if kept is None or kept[1].program is not program:
            if len(self._prepared) >= _REMEMBERED:
                self._prepared.clear()
            framework = self.framework(dtype)
            kept = framework, prepare(program, framework, rounding)
            self._prepared[key] = kept
        return kept

    def _failure(self, error: Exception, program: Program, dtype: str) -> Failure:
        node = None
        cause: BaseException = error
        if isinstance(error, NodeFault):
            node = error.index
            cause = error.__cause__ or error
        words = str(cause).strip().splitlines()
        message = words[0].strip() if words else type(cause).__name__
        if isinstance(cause, EngineFault):
            return Failure(cause.kind, message, node=node)
        message = f"{type(cause).__name__}: {message}" if words else message
        if self.lacks(cause):
            what = "this" if node is None else f"`{program.nodes[node].op}`"
            return Failure("unsupported", f"it has no {what} in {dtype}: {message}", node=node)
        return Failure("raised", message, _short_traceback(cause), node)


def _short_traceback(error: BaseException) -> str:
    """The last frames that are not ours, and the exception."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OURS)
    ]
    lines = traceback.format_list(frames[-4:])
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip()


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


def _reverse(fw: Framework, prepared: Prepared, problem: Problem, answer: _Answer) -> None:
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
        answer.trace = _traced(fw, program, values, found)
        answer.backward += 1


def _forward(fw: Framework, prepared: Prepared, problem: Problem, answer: _Answer) -> None:
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


def _scalar(fw: Framework, y: Any, problem: Problem) -> Any:
    """The cotangent that makes a scalar of the output."""
    if problem.projection.rows is not None:
        return fw.array(problem.projection.rows[0])
    if y.shape and int(np.prod(y.shape)) != 1:
        raise ValueError("second derivatives of an output with several entries need a cotangent")
    return fw.array(np.ones(tuple(y.shape)))


def _reverse_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: _Answer
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
    tape: Tape, target: Any, wanted: Sequence[Any], cotangent: Any, answer: _Answer
) -> list[Any]:
    if target is None:  # no first gradient, so nothing to differentiate
        return [None] * len(wanted)
    answer.backward += 1
    return tape.gradient(target, wanted, cotangent, False)


def _forward_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: _Answer
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


_MODES: dict[Mode, Callable[[Framework, Prepared, Problem, _Answer], None]] = {
    "reverse": _reverse,
    "forward": _forward,
    "reverse-over-reverse": _reverse_over_reverse,
    "forward-over-reverse": _forward_over_reverse,
}


def _descend(
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

"""Records one more run: the operations that the engine executes for the traced entry, and which of
them spoil it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Mode, Phase, Problem, Trace, TraceRequest
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.derivatives import Composed, Mark, Targets, gradient_of, tangent_of
from gradcheck_cli.engines.errors import EngineFault, NodeFault, Unsupported
from gradcheck_cli.engines.execution import Execution, Recorder
from gradcheck_cli.engines.kit.framework import Framework, arrays_of, scalar
from gradcheck_cli.engines.kit.walker import Prepared
from gradcheck_cli.engines.trace.culprits import Known, prove
from gradcheck_cli.engines.tracebacks import internal_failure, is_internal


def with_operations(
    fw: Framework, prepared: Prepared, problem: Problem, trace: Trace, block: Array | None
) -> Trace:
    """The trace with the executed operations, if a target requests them.

    `block` is the gradient (rows, columns) of the plain run. Looks in another precision than the
    judged one stay unchanged. If the run cannot be repeated in high precision, only the operations
    are missing; `note` of the trace says why.
    """
    request = problem.trace
    if request is None or (request.target is None and request.output_target is None):
        return trace
    if problem.dtype != problem.rounding:
        return trace
    entry = 0.0 if block is None else float(block[request.row, request.column])
    try:
        with np.errstate(all="ignore"), _without_collection():
            execution = recorded(fw, prepared, problem, request)
            return proven(execution, trace, request, entry, FORMATS[problem.dtype])
    except Exception as raised:  # a kernel that has no float64, a shape that is another's
        error = (raised.__cause__ or raised) if isinstance(raised, NodeFault) else raised
        words = (str(error).strip().splitlines() or [""])[0]
        told = words if isinstance(error, EngineFault) else f"{type(error).__name__}: {words}"
        fault = None
        if is_internal(error):
            fault = internal_failure(error, "the run could not be explained")
        return replace(trace, note=f"could not be repeated exactly: {told}", fault=fault)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Switches garbage collection off: the record is kept until the end, and searching it again and
    again while it grows would take as long as everything else."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def proven(
    execution: Execution, trace: Trace, request: TraceRequest, entry: float, format: FloatFormat
) -> Trace:
    """The trace with the operations that spoil the entry and those that spoil the output, each if
    requested. `entry` is the value in the plain run.

    Raises what `promotion.prove` raises.
    """
    known: Known = {}
    if request.target is not None:
        if not _failed_alike(execution, entry, request.target, format):
            return replace(trace, note="the recorded run gives a different gradient")
        proof = prove(execution, request.target, format, known)
        trace = replace(
            trace,
            operations=proof.operations,
            culprits=proof.culprits,
            repaired=proof.repaired,
            note=proof.note,
            exactly=proof.exactly,
            enclosed=proof.enclosed,
        )
    if request.output_target is not None:
        execution = replace(execution, target=execution.output, place=request.output)
        proof = prove(execution, request.output_target, format, known)
        trace = replace(
            trace,
            output_operations=proof.operations,
            output_culprits=proof.culprits,
            output_repaired=proof.repaired,
            note=trace.note or proof.note,
        )
    return trace


def _failed_alike(execution: Execution, entry: float, target: float, format: FloatFormat) -> bool:
    """Whether the recorded run failed in the same way as the plain run: both gave no number, or
    they are closer to each other than to the target. (A framework may compile only one of them.)"""
    if execution.target is None:
        return entry == 0
    again = execution.values(execution.target).ravel()[execution.place]
    if not np.isfinite([again, entry]).all():
        return bool(np.isfinite(again) == np.isfinite(entry))
    return bool(abs(again - entry) <= max(abs(entry - target), float(format.ulp(target))))


def _direction(directions: Array | None, index: int, shape: tuple[int, ...]) -> Array:
    if directions is not None:
        return np.asarray(directions[index])
    unit = np.zeros(int(np.prod(shape, dtype=np.int64)))
    unit[index] = 1.0
    return unit.reshape(shape)


@dataclass(frozen=True, slots=True)
class _Traced:
    """The run for one entry: of the gradient with respect to the input `name` or, at second order,
    of its block with `first`."""

    fw: Framework
    prepared: Prepared
    problem: Problem
    request: TraceRequest

    @property
    def name(self) -> str:
        return self.request.input or self.problem.wrt[0]

    @property
    def first(self) -> str:
        return self.request.first or self.problem.wrt[0]

    @property
    def y_bar(self) -> Any:
        return scalar(self.fw, self.prepared.program, self.problem)

    def arrays(self, *moving: str) -> dict[str, Any]:
        return arrays_of(self.fw, self.problem, moving)

    def direction(self, given: Array | None, index: int, shape: tuple[int, ...]) -> Any:
        return self.fw.array(_direction(given, index, shape))

    def column(self) -> Any:
        """The traced direction of the input."""
        given = (self.problem.projection.columns or {}).get(self.name)
        return self.direction(given, self.request.column, np.shape(self.problem.values[self.name]))

    def walked(self, recorder: Recorder, inputs: Mapping[str, Any]) -> list[Any]:
        given = [inputs[name] for name in self.prepared.program.inputs]
        return self.prepared.run(given, recorder.enter, recorder.leave)

    def output(self, recorder: Recorder, inputs: Mapping[str, Any], *names: str) -> Composed:
        """The output as a function of the inputs with these names."""

        def output(moved: Sequence[Any], _: Mark | None = None) -> Targets:
            own = {**inputs, **dict(zip(names, moved, strict=True))}
            return [self.walked(recorder, own)[self.prepared.program.output]], None

        return output


def recorded(
    fw: Framework, prepared: Prepared, problem: Problem, request: TraceRequest
) -> Execution:
    """The recorded run for one entry."""
    return _RUNS[problem.mode](_Traced(fw, prepared, problem, request))


def _reverse(run: _Traced) -> Execution:
    fw, name, program = run.fw, run.name, run.prepared.program
    recorder, arrays = fw.recorder(), run.arrays(name)
    shape = program.result.shape
    cotangent = run.direction(run.problem.projection.rows, run.request.row, shape)

    def derivative(y_bar: Any, *given: Any) -> list[Any]:
        inputs = dict(zip(arrays, given, strict=True))
        (y,), _, vjp = fw.vjp(run.output(recorder, inputs, name), [inputs[name]])
        if run.request.target is None:  # the output alone is to be explained
            return [y, None]
        recorder.derive()
        (found,) = vjp([y_bar])
        return [y, found]

    place = run.request.column
    execution = _recorded(recorder, derivative, [cotangent, *arrays.values()], place)
    for step in execution.steps:  # cotangents are added up for the input itself
        if step.node is None and execution.target in step.results:
            step.node = program.inputs[name]
    return execution


def _forward(run: _Traced) -> Execution:
    fw, name = run.fw, run.name
    recorder, arrays = fw.recorder(), run.arrays()

    def derivative(tangent: Any, *given: Any) -> list[Any]:
        inputs = dict(zip(arrays, given, strict=True))
        if run.request.target is None:
            (y,), _ = run.output(recorder, inputs)([])
            return [y, None]

        def output(duals: list[Any]) -> Targets:
            values = run.walked(recorder, {**inputs, name: duals[0]})
            y = values[run.prepared.program.output]
            return [y], [v for v in values if hasattr(v, "shape")]

        (y,), (found,), values = fw.jvp(output, [inputs[name]], [tangent])
        return [y, found, *values]

    execution = recorder.execution
    slots = recorder.record(derivative, [run.column(), *arrays.values()])
    execution.output, execution.target, *primal = slots
    execution.place = run.request.row
    _tell(execution, {execution.output, *primal}, "tangent")
    return execution


def _reverse_over_reverse(run: _Traced) -> Execution:
    """<ds/da, v> differentiated with respect to b, as in `modes`. v is an entry of `first` if the
    whole Hessian is requested, and the direction of `name` if directions are."""
    fw, columns = run.fw, run.problem.projection.columns
    (a, at), (b, place) = (run.first, run.request.row), (run.name, run.request.column)
    if columns is not None:
        (a, at), (b, place) = (b, place), (a, at)
    moving = list(dict.fromkeys((a, b)))
    recorder, arrays = fw.recorder(), run.arrays(*moving)
    given = None if columns is None else columns[a]
    direction = run.direction(given, at, tuple(arrays[a].shape))

    def derivative(y_bar: Any, along: Any, *given: Any) -> list[Any]:
        inputs = dict(zip(arrays, given, strict=True))
        gradient = _gradient(run, recorder, inputs, moving, y_bar)
        _, (y,), vjp = fw.vjp(gradient, [inputs[k] for k in moving])
        bars = [along if k == a else None for k in moving]
        return [y, vjp(bars)[moving.index(b)]]

    return _recorded(recorder, derivative, [run.y_bar, direction, *arrays.values()], place)


def _forward_over_reverse(run: _Traced) -> Execution:
    """The tangent of ds/d first along a direction of `name`."""
    fw, name, first = run.fw, run.name, run.first
    recorder, arrays = fw.recorder(), run.arrays(first, name)

    def derivative(y_bar: Any, along: Any, *given: Any) -> list[Any]:
        inputs = dict(zip(arrays, given, strict=True))

        def gradient(duals: list[Any]) -> Targets:
            own = {**inputs, name: duals[0]}
            return _gradient(run, recorder, own, [first], y_bar)([own[first]])

        _, (found,), (y,) = fw.jvp(gradient, [inputs[name]], [along])
        return [y, found]

    given = [run.y_bar, run.column(), *arrays.values()]
    return _recorded(recorder, derivative, given, run.request.row)


def _reverse_over_forward(run: _Traced) -> Execution:
    """The tangent of s along a direction of `name`, differentiated with respect to `first`."""
    fw, first = run.fw, run.first
    with fw.nested():
        recorder = fw.recorder()
    arrays = run.arrays(first, run.name)

    def derivative(y_bar: Any, along: Any, *given: Any) -> list[Any]:
        inputs = dict(zip(arrays, given, strict=True))
        with fw.nested():
            _, (y,), vjp = fw.vjp(_tangent(run, recorder, inputs, along), [inputs[first]])
        recorder.derive()
        return [y, *vjp([y_bar])]

    given = [run.y_bar, run.column(), *arrays.values()]
    return _recorded(recorder, derivative, given, run.request.row)


def _forward_over_forward(run: _Traced) -> Execution:
    """The tangent of s along a direction of `name`, and its tangent along one of `first`."""
    fw, first, firsts = run.fw, run.first, run.problem.projection.firsts or {}
    with fw.nested():
        recorder = fw.recorder()
    arrays = run.arrays()
    other = run.direction(firsts.get(first), run.request.row, tuple(arrays[first].shape))

    def derivative(y_bar: Any, along: Any, other: Any, *given: Any) -> list[Any]:
        inputs = dict(zip(arrays, given, strict=True))
        tangent = _tangent(run, recorder, inputs, along)
        with fw.nested():
            _, (found,), (y,) = fw.jvp(tangent, [inputs[first]], [other])
        return [y, found]

    if run.prepared.program.result.shape != ():
        raise Unsupported("a product of tangents is not recorded")
    return _recorded(recorder, derivative, [run.y_bar, run.column(), other, *arrays.values()], 0)


def _tangent(run: _Traced, recorder: Recorder, inputs: Mapping[str, Any], x_dot: Any) -> Composed:
    """The tangent of the output along a direction of the input `name`, as a function of the input
    `first`."""

    def tangent(moved: Sequence[Any], _: Mark | None = None) -> Targets:
        own = {**inputs, run.first: moved[0]}
        return tangent_of(run.fw, run.output(recorder, own, run.name), [x_dot])([own[run.name]])

    return tangent


def _gradient(
    run: _Traced, recorder: Recorder, inputs: Mapping[str, Any], names: Sequence[str], y_bar: Any
) -> Composed:
    """The gradients of <y_bar, output> with respect to the inputs `names`, as a function of
    these."""
    output = run.output(recorder, inputs, *names)

    def forward(moved: Sequence[Any], mark: Mark) -> Targets:
        found = output(moved, mark)
        recorder.derive()
        return found

    return gradient_of(run.fw, forward, [y_bar])


def _recorded(
    recorder: Recorder, derivative: Callable[..., list[Any]], arrays: Sequence[Any], place: int
) -> Execution:
    execution = recorder.execution
    execution.output, execution.target = recorder.record(derivative, arrays)
    execution.place = place
    _tell(execution, {execution.output}, "backward")
    return execution


_RUNS: dict[Mode, Callable[[_Traced], Execution]] = {
    "reverse": _reverse,
    "forward": _forward,
    "reverse-over-reverse": _reverse_over_reverse,
    "forward-over-reverse": _forward_over_reverse,
    "reverse-over-forward": _reverse_over_forward,
    "forward-over-forward": _forward_over_forward,
}


def _tell(execution: Execution, primal: set[int | None], phase: Phase) -> None:
    """Marks operations that no value of the program depends on as executed for the derivative."""
    wanted = set(primal)
    for step in reversed(execution.steps):
        if wanted.isdisjoint(step.results):
            step.phase = phase
        else:
            wanted.update(step.args)

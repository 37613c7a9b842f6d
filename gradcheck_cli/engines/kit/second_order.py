"""Second derivatives of formulas: the four ways to compose reverse and forward mode.

Each differentiates s = <cotangent, output> twice: the inner mode gives first derivatives, which the
outer mode differentiates. What was custom in the program has a rule for each mode, so a rule may be
wrong in one composition and right in the others.

Third derivatives are second ones of <direction, gradient of s>: the same passes over a function
that reverse mode gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock, blocks_in
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Gradient, Mode, Problem
from gradcheck_cli.domain.records import traceable_dataclass
from gradcheck_cli.engines.derivatives import Closure, Mark, Targets
from gradcheck_cli.engines.kit.framework import Framework, arrays_of, scalar
from gradcheck_cli.engines.kit.modes import (
    Answer,
    Differentiate,
    NodesCode,
    OutputCode,
    Still,
    along,
    compiled_once,
    directions_of,
    stacked,
    trace_of,
    trace_operations,
    trace_tangents,
)
from gradcheck_cli.engines.kit.walker import Prepared

_Y_BAR = ""  # the cotangent, among the inputs by their names
_X_DOT = ".{}"  # the tangent of an input
_ALONG = "..{}"  # the direction of an input that weighs its gradient, third order


@traceable_dataclass(frozen=True, slots=True)
class _Gradients:
    """The code of the gradients of <cotangent, output> by the inputs `wrt`, as targets; with them
    the output."""

    fw: Framework
    prepared: Prepared
    wrt: tuple[str, ...]

    def __call__(
        self, arrays: Mapping[str, Any], moved: Sequence[Any], _: Mark | None = None
    ) -> Targets:
        inputs = dict(arrays)
        y_bar = inputs.pop(_Y_BAR)
        code = OutputCode(self.prepared, self.wrt, False)
        (y,), _, vjp = self.fw.vjp(Closure(code, inputs), moved)
        return vjp([y_bar], again=True), (y,)


@traceable_dataclass(frozen=True, slots=True)
class _First:
    """The code of the gradients of <cotangent, output> by the inputs `wrt`, as a function of these.
    With them it returns the output and, where traced, the value and the cotangent of every node.
    Where that is `weighed`, it is of <direction, gradients>."""

    fw: Framework
    prepared: Prepared
    wrt: tuple[str, ...]
    traced: bool
    weighed: bool = False

    def __call__(
        self, arrays: Mapping[str, Any], moved: Sequence[Any], _: Mark | None = None
    ) -> Targets:
        inputs = dict(arrays)
        if self.weighed:
            weights = [inputs.pop(_ALONG.format(name)) for name in self.wrt]
            gradients = _Gradients(self.fw, self.prepared, self.wrt)
            _gradients, (y,), again = self.fw.vjp(Closure(gradients, inputs), moved)
            return again(weights, again=True), (y, None, None)
        y_bar = inputs.pop(_Y_BAR)
        code = OutputCode(self.prepared, self.wrt, self.traced)
        (y,), values, vjp = self.fw.vjp(Closure(code, inputs, self.traced), moved)
        first = vjp([y_bar], again=True)
        return first, (y, values, vjp.with_marked([y_bar])[1] if self.traced else None)

    def closure(self, problem: Problem) -> Closure:
        y_bar = scalar(self.fw, self.prepared.program, problem)
        weights = {_ALONG.format(k): self.fw.array(u) for k, u in (problem.along or {}).items()}
        arrays = {**arrays_of(self.fw, problem, problem.wrt), _Y_BAR: y_bar, **weights}
        return Closure(self, arrays, self.traced)

    def told(self, rest: Any, answer: Answer) -> None:
        y, values, cotangents = rest
        if answer.output is None:
            answer.output = self.fw.numpy(y)
        if values is not None and answer.trace is None:
            answer.trace = trace_of(self.fw, self.prepared.program, values, cotangents)


@traceable_dataclass(frozen=True, slots=True)
class _Tangent:
    """The code of the output's tangent along a direction of the inputs `wrt`, by the same inputs;
    with it the output."""

    fw: Framework
    prepared: Prepared
    wrt: tuple[str, ...]

    def __call__(
        self, arrays: Mapping[str, Any], moved: Sequence[Any], _: Mark | None = None
    ) -> Targets:
        inputs = {**arrays, **dict(zip(self.wrt, moved, strict=True))}
        x_dots = [inputs.pop(_X_DOT.format(name), None) for name in self.wrt]
        output = NodesCode(self.prepared, self.wrt, (self.prepared.program.output,))
        (y,), (y_dot,), _ = self.fw.jvp(Closure(output, inputs), list(moved), x_dots)
        return [y_dot, y], None

    def closure(
        self, arrays: Mapping[str, Any], moving: str, x_dot: Array, still: Still
    ) -> Closure:
        x_dots = along(self.fw, arrays, self.wrt, moving, x_dot, still)
        named = zip(map(_X_DOT.format, self.wrt), x_dots, strict=True)
        return Closure(self, {**arrays, **{k: one for k, one in named if one is not None}})


def _reverse_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    weighed = problem.along is not None
    traced = problem.trace is not None and not weighed
    first = _First(fw, prepared, tuple(problem.wrt), traced, weighed)
    function = first.closure(problem)
    columns = problem.projection.columns
    sources = [function.arrays[name] for name in problem.wrt]
    _, rest, vjp = fw.vjp(function, sources)
    answer.forward += 1
    answer.backward += 1
    first.told(rest, answer)
    for index, (name, source) in enumerate(zip(problem.wrt, sources, strict=True)):
        shape = tuple(source.shape)
        given = None if columns is None else columns[name]
        passes = []
        for cotangent in directions_of(given, shape):
            bars = [fw.array(cotangent) if i == index else None for i in range(len(sources))]
            passes.append(vjp(bars))
            answer.backward += 1
        for position, (other, array) in enumerate(zip(problem.wrt, sources, strict=True)):
            # <ds/db, v> differentiated again: one pass gives column v of every block of b.
            rows, by, along = (name, other, 0) if columns is None else (other, name, 1)
            block = str(HessianBlock(rows, by))
            parts = [grads[position] for grads in passes]
            answer.gradients[block] = stacked(fw, parts, tuple(array.shape), along, block)
    trace_operations(fw, prepared, problem, answer)


def _forward_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    weighed = problem.along is not None
    traced = problem.trace is not None and not weighed
    columns = problem.projection.columns or {}
    names = tuple(problem.wrt)
    first = _First(fw, prepared, names, traced, weighed)
    function = first.closure(problem)
    inputs = function.arrays
    sources = [inputs[name] for name in names]
    for b in names:

        def passes(still: Still, b: str = b) -> list[list[Any]]:
            found = []
            for column in directions_of(columns.get(b), tuple(inputs[b].shape)):
                x_dots = along(fw, inputs, names, b, column, still)
                _, tangents, rest = fw.jvp(function, sources, x_dots)
                found.append(tangents)
                answer.forward += 1
                answer.backward += 1
                first.told(rest, answer)
            return found

        _put_columns(fw, inputs, problem, b, compiled_once(fw, passes), answer)
    trace_operations(fw, prepared, problem, answer)


def _reverse_over_forward(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    arrays, y_bar = arrays_of(fw, problem, problem.wrt), scalar(fw, prepared.program, problem)
    sources = [arrays[name] for name in problem.wrt]
    columns = problem.projection.columns or {}
    tangent = _Tangent(fw, prepared, tuple(problem.wrt))
    for b in problem.wrt:

        def passes(still: Still, b: str = b) -> list[list[Any]]:
            found = []
            for column in directions_of(columns.get(b), tuple(arrays[b].shape)):
                with fw.nested():
                    (_, y), _, vjp = fw.vjp(tangent.closure(arrays, b, column, still), sources)
                found.append(vjp([y_bar, None]))
                answer.forward += 1
                answer.backward += 1
                if answer.output is None:
                    answer.output = fw.numpy(y)
            return found

        _put_columns(fw, arrays, problem, b, compiled_once(fw, passes), answer)
    trace_tangents(fw, prepared, problem, answer)


def _put_columns(
    fw: Framework,
    arrays: Mapping[str, Any],
    problem: Problem,
    b: str,
    passes: Sequence[Sequence[Any]],
    answer: Answer,
) -> None:
    """Puts the blocks by `b` into the answer: a pass gives one column of each of them."""
    for position, a in enumerate(problem.wrt):
        parts = [grads[position] for grads in passes]
        block = str(HessianBlock(a, b))
        answer.gradients[block] = stacked(fw, parts, tuple(arrays[a].shape), 1, block)


def _forward_over_forward(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    """One pass for each pair of directions."""
    arrays = arrays_of(fw, problem, ())
    y_bar = fw.numpy(scalar(fw, prepared.program, problem)).reshape(-1)
    firsts, columns = problem.projection.firsts or {}, problem.projection.columns or {}
    names = tuple(problem.wrt)
    tangent = _Tangent(fw, prepared, names)
    sources = [arrays[name] for name in names]
    for block in blocks_in("forward-over-forward", names):

        def passes(still: Still, a: str = block.rows, b: str = block.columns) -> list[list[Any]]:
            parts: list[list[Any]] = []
            for column in directions_of(columns.get(b), tuple(arrays[b].shape)):
                function = tangent.closure(arrays, b, column, still)
                parts.append([])
                for direction in directions_of(firsts.get(a), tuple(arrays[a].shape)):
                    x_dots = along(fw, arrays, names, a, direction, still)
                    with fw.nested():
                        (_, y), (found, _), _ = fw.jvp(function, sources, x_dots)
                    answer.forward += 1
                    parts[-1].append(found)
                    if answer.output is None:
                        answer.output = fw.numpy(y)
            return parts

        parts = compiled_once(fw, passes)
        answer.gradients[str(block)] = _products(fw, y_bar, parts, problem.dtype)
    trace_tangents(fw, prepared, problem, answer)


def _products(fw: Framework, y_bar: Array, parts: Sequence[Sequence[Any]], dtype: str) -> Gradient:
    """<y_bar, y_ddot> of every pair of directions, columns first: in float64, then rounded. Their
    dtype is ours: PyTorch gives the second tangent of 0.01 * sum(x) in float64."""
    known = [y_ddot for column in parts for y_ddot in column if y_ddot is not None]
    if parts and parts[0] and not known:
        return Gradient(None)
    values = [
        [
            0.0 if y_ddot is None else float(y_bar @ fw.numpy(y_ddot).reshape(-1))
            for y_ddot in column
        ]
        for column in parts
    ]
    rounded = FORMATS[dtype].round(np.array(values, dtype=np.float64).T)
    return Gradient(rounded)


COMPOSITIONS: dict[Mode, Differentiate] = {
    "reverse-over-reverse": _reverse_over_reverse,
    "forward-over-reverse": _forward_over_reverse,
    "reverse-over-forward": _reverse_over_forward,
    "forward-over-forward": _forward_over_forward,
    "reverse-over-reverse-over-reverse": _reverse_over_reverse,
    "forward-over-reverse-over-reverse": _forward_over_reverse,
}

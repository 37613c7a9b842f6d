"""Second derivatives of formulas in all four compositions of reverse and forward mode.

Each differentiates s = <cotangent, output> twice: the outer mode differentiates the first
derivatives that the inner mode computes. Custom functions of the program have a rule for each mode,
so a rule may be wrong in only one composition.

Third derivatives are second derivatives of <direction, gradient of s>: the same passes over a
function that reverse mode computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock, blocks_in
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Gradient, Mode, Problem
from gradcheck_cli.engines.derivatives import Closure, gradient_of, tangent_of
from gradcheck_cli.engines.kit.framework import Framework, arrays_of, scalar
from gradcheck_cli.engines.kit.modes import (
    Answer,
    Differentiate,
    NodesCode,
    OutputCode,
    Still,
    compiled_once,
    directions_of,
    stacked,
    tangents_for,
    trace_of,
    trace_operations,
    trace_tangents,
)
from gradcheck_cli.engines.kit.walker import Prepared


class _First:
    """The `gradients` of <cotangent, output> with respect to the differentiated inputs, as a
    function of these; with a direction: of <direction, gradients>."""

    def __init__(self, fw: Framework, prepared: Prepared, problem: Problem) -> None:
        self._fw = fw
        self._program = prepared.program
        self._traced = problem.trace is not None and problem.along is None
        self.inputs = arrays_of(fw, problem, problem.wrt)
        output = OutputCode(prepared, tuple(problem.wrt), self._traced)
        y_bar = scalar(fw, prepared.program, problem)
        self.gradients = gradient_of(fw, Closure(output, self.inputs, self._traced), [y_bar])
        if problem.along is not None:
            weights = [fw.array(problem.along[name]) for name in problem.wrt]
            self.gradients = gradient_of(fw, self.gradients, weights)

    def put_output(self, rest: Any, answer: Answer) -> None:
        """Puts the output into the answer and, if traced, the value and the cotangent of every
        node."""
        values, cotangents = rest if self._traced else (rest, {})
        if answer.output is None:
            answer.output = self._fw.numpy(values[self._program.output if self._traced else 0])
        if self._traced and answer.trace is None:
            answer.trace = trace_of(self._fw, self._program, values, cotangents)


def _reverse_over_reverse(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    first = _First(fw, prepared, problem)
    columns = problem.projection.columns
    sources = [first.inputs[name] for name in problem.wrt]
    _, rest, vjp = fw.vjp(first.gradients, sources)
    answer.forward += 1
    answer.backward += 1
    first.put_output(rest, answer)
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
    columns = problem.projection.columns or {}
    names = tuple(problem.wrt)
    first = _First(fw, prepared, problem)
    inputs = first.inputs
    sources = [inputs[name] for name in names]
    for b in names:

        def passes(still: Still, b: str = b) -> list[list[Any]]:
            rows = []
            for column in directions_of(columns.get(b), tuple(inputs[b].shape)):
                x_dots = tangents_for(fw, inputs, names, b, column, still)
                _, tangents, rest = fw.jvp(first.gradients, sources, x_dots)
                rows.append(tangents)
                answer.forward += 1
                answer.backward += 1
                first.put_output(rest, answer)
            return rows

        _put_columns(fw, inputs, problem, b, compiled_once(fw, passes), answer)
    trace_operations(fw, prepared, problem, answer)


def _reverse_over_forward(
    fw: Framework, prepared: Prepared, problem: Problem, answer: Answer
) -> None:
    arrays, y_bar = arrays_of(fw, problem, problem.wrt), scalar(fw, prepared.program, problem)
    sources = [arrays[name] for name in problem.wrt]
    columns = problem.projection.columns or {}
    names = tuple(problem.wrt)
    output = Closure(NodesCode(prepared, names, (prepared.program.output,)), arrays)
    for b in names:

        def passes(still: Still, b: str = b) -> list[list[Any]]:
            rows = []
            for column in directions_of(columns.get(b), tuple(arrays[b].shape)):
                x_dots = tangents_for(fw, arrays, names, b, column, still)
                with fw.nested():
                    _, (y,), vjp = fw.vjp(tangent_of(fw, output, x_dots), sources)
                rows.append(vjp([y_bar]))
                answer.forward += 1
                answer.backward += 1
                if answer.output is None:
                    answer.output = fw.numpy(y)
            return rows

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
    """Puts the blocks of the input `b` into the answer. Each pass gives one column of every
    block."""
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
    output = Closure(NodesCode(prepared, names, (prepared.program.output,)), arrays)
    sources = [arrays[name] for name in names]
    for block in blocks_in("forward-over-forward", names):

        def passes(still: Still, a: str = block.rows, b: str = block.columns) -> list[list[Any]]:
            parts: list[list[Any]] = []
            for column in directions_of(columns.get(b), tuple(arrays[b].shape)):
                x_dots = tangents_for(fw, arrays, names, b, column, still)
                tangent = tangent_of(fw, output, x_dots)
                parts.append([])
                for direction in directions_of(firsts.get(a), tuple(arrays[a].shape)):
                    x_dots = tangents_for(fw, arrays, names, a, direction, still)
                    with fw.nested():
                        _, (found,), (y,) = fw.jvp(tangent, sources, x_dots)
                    answer.forward += 1
                    parts[-1].append(found)
                    if answer.output is None:
                        answer.output = fw.numpy(y)
            return parts

        parts = compiled_once(fw, passes)
        answer.gradients[str(block)] = _products(fw, y_bar, parts, problem.dtype)
    trace_tangents(fw, prepared, problem, answer)


def _products(fw: Framework, y_bar: Array, parts: Sequence[Sequence[Any]], dtype: str) -> Gradient:
    """<y_bar, y_ddot> for every pair of directions, columns first, computed in float64 and rounded.
    We choose their dtype: PyTorch returns the second tangent of 0.01 * sum(x) in float64."""
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

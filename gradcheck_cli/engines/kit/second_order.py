"""Second derivatives of formulas in all four compositions of reverse and forward mode.

Each differentiates s = <cotangent, output> twice: the outer mode differentiates the first
derivatives that the inner mode computes. Custom functions of the program have a rule for each mode,
so a rule may be wrong in only one composition.

Third derivatives are second derivatives of <direction, gradient of s>: the same passes over a
function that reverse mode computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock, blocks_in
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Gradient, Mode
from gradcheck_cli.engines.derivatives import Closure, gradient_of, tangent_of
from gradcheck_cli.engines.kit.framework import Framework, scalar
from gradcheck_cli.engines.kit.modes import (
    Differentiate,
    OutputCode,
    Passes,
    Still,
    compiled_once,
    directions_of,
    trace_of,
)


class _First:
    """The `gradients` of <cotangent, output> with respect to the differentiated inputs, as a
    function of these; with a direction: of <direction, gradients>."""

    def __init__(self, run: Passes) -> None:
        fw, problem = run.fw, run.problem
        self._run = run
        self._traced = problem.trace is not None and problem.along is None
        self.inputs = run.arrays(problem.wrt)
        self.sources = [self.inputs[name] for name in run.names]
        output = OutputCode(run.prepared, run.names, self._traced)
        y_bar = scalar(fw, run.prepared.program, problem)
        self.gradients = gradient_of(fw, Closure(output, self.inputs, self._traced), [y_bar])
        if problem.along is not None:
            weights = [fw.array(problem.along[name]) for name in run.names]
            self.gradients = gradient_of(fw, self.gradients, weights)

    def put_output(self, rest: Any) -> None:
        """Put the output into the answer and, if traced, the value and the cotangent of every
        node."""
        run, program = self._run, self._run.prepared.program
        values, cotangents = rest if self._traced else (rest, {})
        run.put_output(values[program.output if self._traced else 0])
        if self._traced and run.answer.trace is None:
            run.answer.trace = trace_of(run.fw, program, values, cotangents)


def _reverse_over_reverse(run: Passes) -> None:
    fw, columns = run.fw, run.problem.projection.columns
    first = _First(run)
    sources = first.sources
    _, rest, vjp = fw.vjp(first.gradients, sources)
    run.count(forward=1, backward=1)
    first.put_output(rest)
    for index, (name, source) in enumerate(zip(run.names, sources, strict=True)):
        given = None if columns is None else columns[name]
        passes = []
        for cotangent in directions_of(given, tuple(source.shape)):
            bars = [fw.array(cotangent) if i == index else None for i in range(len(sources))]
            passes.append(vjp(bars))
            run.count(backward=1)
        for position, (other, array) in enumerate(zip(run.names, sources, strict=True)):
            # <ds/db, v> differentiated again: one pass gives column v of every block of b.
            rows, by, along = (name, other, 0) if columns is None else (other, name, 1)
            parts = [grads[position] for grads in passes]
            run.put(str(HessianBlock(rows, by)), parts, tuple(array.shape), along)
    run.trace_operations()


def _forward_over_reverse(run: Passes) -> None:
    first = _First(run)

    def forward(x_dots: list[Any]) -> list[Any]:
        _, tangents, rest = run.fw.jvp(first.gradients, first.sources, x_dots)
        run.count(forward=1, backward=1)
        first.put_output(rest)
        return tangents

    _put_columns(run, first.inputs, forward)
    run.trace_operations()


def _reverse_over_forward(run: Passes) -> None:
    fw, arrays = run.fw, run.arrays(run.problem.wrt)
    y_bar = scalar(fw, run.prepared.program, run.problem)
    sources, output = [arrays[name] for name in run.names], run.output(arrays)

    def forward(x_dots: list[Any]) -> list[Any]:
        with fw.nested():
            _, (y,), vjp = fw.vjp(tangent_of(fw, output, x_dots), sources)
        run.put_output(y)
        x_bars: list[Any] = vjp([y_bar])
        run.count(forward=1, backward=1)
        return x_bars

    _put_columns(run, arrays, forward)
    run.trace_tangents()


def _put_columns(
    run: Passes, arrays: Mapping[str, Any], forward: Callable[[list[Any]], list[Any]]
) -> None:
    """Put every block into the answer. Each result of `forward`, which runs a pass in both modes,
    is one column of all blocks of an input."""
    for b in run.names:
        passes = run.by_column(arrays, b, forward)
        for position, a in enumerate(run.names):
            parts = [grads[position] for grads in passes]
            run.put(str(HessianBlock(a, b)), parts, tuple(arrays[a].shape), 1)


def _forward_over_forward(run: Passes) -> None:
    """One pass for each pair of directions."""
    fw, arrays, firsts = run.fw, run.arrays(), run.problem.projection.firsts or {}
    y_bar = fw.numpy(scalar(fw, run.prepared.program, run.problem)).reshape(-1)
    sources, output = [arrays[name] for name in run.names], run.output(arrays)
    for block in blocks_in("forward-over-forward", run.names):

        def passes(still: Still, a: str = block.rows, b: str = block.columns) -> list[list[Any]]:
            parts: list[list[Any]] = []
            for column in run.columns(b, arrays):
                tangent = tangent_of(fw, output, run.tangents(arrays, b, column, still))
                parts.append([])
                for direction in directions_of(firsts.get(a), tuple(arrays[a].shape)):
                    x_dots = run.tangents(arrays, a, direction, still)
                    with fw.nested():
                        _, (found,), (y,) = fw.jvp(tangent, sources, x_dots)
                    run.count(forward=1)
                    parts[-1].append(found)
                    run.put_output(y)
            return parts

        parts = compiled_once(fw, passes)
        run.answer.gradients[str(block)] = _products(fw, y_bar, parts, run.problem.dtype)
    run.trace_tangents()


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

"""The value and the whole gradient of a problem as one program of the op table.

One reverse pass is recorded, operation by operation, and lifted as a layer is: kernels of the
framework become the rows that restate them. The program must hold for other inputs, too, so the
numbers of the run must not have chosen any operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.derivatives import Mark, Targets
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.execution import Observer
from gradcheck_cli.engines.kit.adapter import ProgramEngine
from gradcheck_cli.engines.kit.framework import Framework, arrays_of
from gradcheck_cli.engines.kit.modes import directions_of
from gradcheck_cli.engines.kit.walker import Prepared
from gradcheck_cli.engines.layer.lifting import OTHER_DEVICE, lifted_outputs


def engine_program(engine: Engine, problem: Problem) -> GradientProgram:
    """The operations that the engine executes for the problem (`gradient_program`). On a GPU there
    is no answer, because other kernels run there."""
    if not isinstance(engine, ProgramEngine):
        return GradientProgram(reason=f"{engine.capabilities.name} does not record what it runs")
    if engine.placement != HOST:
        return GradientProgram(reason=OTHER_DEVICE)
    return gradient_program(*engine.prepared(problem), problem)


def gradient_program(fw: Framework, prepared: Prepared, problem: Problem) -> GradientProgram:
    """The operations of one run in reverse mode. If no row states an operation, or the numbers of
    the run chose one, the answer has a reason in place of a program."""
    try:
        return _recorded(fw, prepared, problem)
    except EngineFault as fault:
        return GradientProgram(reason=str(fault))


def _recorded(fw: Framework, prepared: Prepared, problem: Problem) -> GradientProgram:
    program = prepared.program
    recorder = fw.recorder()
    recorder.execution.is_general = True
    if isinstance(recorder, Observer):  # NumPy shows only what is done to watched arrays
        template = prepared.template
        watched = (recorder.watch(x) if _is_numpy_float(x) else x for x in template)
        prepared = replace(prepared, template=tuple(watched))
    names = list(program.inputs)
    arrays = arrays_of(fw, problem, problem.wrt).values()
    shape = program.result.shape
    rows = [fw.array(row) for row in directions_of(problem.projection.rows, shape)]

    def derivative(*arguments: Any) -> list[Any]:
        inputs = dict(zip(names, arguments[len(rows) :], strict=True))

        def output(moved: Sequence[Any], _: Mark) -> Targets:
            own = {**inputs, **dict(zip(problem.wrt, moved, strict=True))}
            values = prepared.run([own[n] for n in names], recorder.enter, recorder.leave)
            return [values[program.output]], None

        (y,), _, vjp = fw.vjp(output, [inputs[name] for name in problem.wrt])
        recorder.derive()
        outputs = [y]
        for row in arguments[: len(rows)]:
            outputs += vjp([row], again=True)
        return [*inputs.values(), *outputs]

    slots = recorder.record(derivative, [*rows, *arrays])
    # whole numbers are no points of a domain: labels and indices are those of the problem
    inputs = {
        name: slot
        for name, slot in zip(names, slots, strict=False)
        if np.asarray(problem.values[name]).dtype.kind == "f"
    }
    span = program.result.span
    lifted = lifted_outputs(recorder.execution, inputs, slots[len(names) :], span)
    return GradientProgram(lifted.program, lifted.constants)


def _is_numpy_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"

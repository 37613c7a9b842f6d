"""The computed values and gradients, for the report."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Evaluation, TraceRequest
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.report import Comparison, Reading
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.measures import error_in_ulps


def readings_of(case: Case) -> tuple[Reading, ...]:
    """The readings of all evaluations of first order that have an output."""
    made = (_reading(case, one) for one in case.evaluations if one.mode in FIRST_ORDER)
    return tuple(reading for reading in made if reading is not None)


def _reading(case: Case, evaluation: Evaluation) -> Reading | None:
    """The reading of one evaluation, with its gradients if their whole Jacobian was computed."""
    if evaluation.failure is not None or evaluation.output is None:
        return None
    projection = case.projections[evaluation.mode]
    gradients: dict[str, object] = {}
    compared: dict[str, Comparison] = {}
    if projection.rows is None and projection.columns is None:
        for name, gradient in evaluation.gradients.items():
            shape = (*evaluation.output.shape, *case.values[name].shape)
            values = gradient.values
            gradients[name] = None if values is None else values.reshape(shape).tolist()
            block = case.truth.blocks.get((evaluation.mode, name)) if case.truth else None
            if values is not None and block is not None:
                found = _compared(values, block, FORMATS[case.dtype])
                compared[name] = Comparison(
                    evaluation.output.shape,
                    case.values[name].shape,
                    *found,
                    complex_output=case.complex_output,
                    complex_input=name in case.complex_leaves,
                )
    return Reading(
        engine=evaluation.engine,
        dtype=case.dtype,
        mode=evaluation.mode,
        point=case.point,
        output=evaluation.output.tolist(),
        gradients=gradients,
        compared=compared,
    )


def graph_of(evaluation: Evaluation, case: Case, request: TraceRequest) -> Graph:
    """The graph of a traced run, with the numbers of one entry of the gradient."""
    assert evaluation.trace is not None
    return Graph(
        program=case.spec.program,
        engine=evaluation.engine,
        dtype=evaluation.dtype,
        mode=evaluation.mode,
        point=case.point,
        row=request.row,
        input=request.input,
        column=request.column,
        values=evaluation.trace.values,
        derivatives=evaluation.trace.derivatives,
    )


def _compared(computed: Array, block: TruthBlock, fmt: FloatFormat) -> tuple[Array, Array, Array]:
    """The computed values, the truth (nan where there is no derivative), and the errors in ulps."""
    truth = np.where(block.kind == PointKind.SMOOTH, block.value, np.nan)
    return computed, truth, error_in_ulps(computed, truth, fmt)

"""Evaluate a program with the reference engine in this process, for its computation graph."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Values
from gradcheck_cli.domain.evaluation import Failure, Mode, Problem, Projection, TraceRequest
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.reference.engine import ReferenceEngine


def graph_with_numbers(
    program: Program, values: Values, wrt: tuple[str, ...], dtype: str, mode: Mode = "reverse"
) -> Graph | Failure:
    """The graph of a run in `dtype`, or the failure of the run. Cotangents are derivatives of the
    sum of the output; tangents are derivatives with respect to the first entry of `wrt[0]`."""
    fmt = FORMATS[dtype]
    rounded = {name: fmt.round(v) if v.dtype.kind == "f" else v for name, v in values.items()}
    ones = np.ones((1, *program.result.shape))
    projection = Projection(rows=ones) if mode == "reverse" else Projection()
    trace = TraceRequest(input=wrt[0])
    engine = ReferenceEngine()
    engine.load()
    problem = Problem(program, rounded, wrt, dtype, dtype, mode, projection, trace)
    answer = engine.evaluate(problem)
    if answer.failure is not None:
        return answer.failure
    assert answer.trace is not None
    return Graph(
        program=program,
        engine="reference",
        dtype=dtype,
        mode=mode,
        row=None,
        input=wrt[0],
        values=answer.trace.values,
        derivatives=answer.trace.derivatives,
    )

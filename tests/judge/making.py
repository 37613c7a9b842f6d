"""Hand-made truths, answers and cases: input for the judge, without any computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import (
    Evaluation,
    Failure,
    FailureKind,
    Gradient,
    Mode,
    Projection,
)
from gradcheck_cli.domain.spec import Spec, Tolerance
from gradcheck_cli.domain.truth import Hull, PointKind, Truth, TruthBlock
from tests.conftest import array, spec_of

Numbers = Any  # a number or a nested list of them
ONE: Mapping[str, Any] = {"x": 1.0}


def rows(values: Numbers, like: Array | None = None) -> Array:
    """A (rows, columns) array of a number, a row or rows, broadcast to the shape of `like`."""
    made = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return made if like is None else np.broadcast_to(made, like.shape).copy()


def block(
    value: Numbers,
    error: Numbers = 0.0,
    *,
    kind: Numbers = PointKind.SMOOTH,
    between: tuple[Numbers, Numbers] | None = None,
    condition: Numbers = 0.0,
    allowance: Numbers = 0.0,
    floor: Numbers = 0.0,
    stated: Numbers | None = None,
    scale: Numbers | None = None,
    confirmed: bool = True,
) -> TruthBlock:
    """A block with a known truth: exact, smooth and well-conditioned by default.

    `between` are the one-sided derivatives. The default of `scale` is the size of the truth.
    """
    truth = rows(value)
    low, high = between or (value, value)
    return TruthBlock(
        value=truth,
        error=rows(error, truth),
        difference=truth,
        difference_error=rows(error, truth),
        kind=rows(kind, truth).astype(np.int64),
        lower=rows(low, truth),
        upper=rows(high, truth),
        condition=rows(condition, truth),
        allowance=rows(allowance, truth),
        floor=rows(floor, truth),
        stated=truth if stated is None else rows(stated, truth),
        scale=np.abs(truth) if scale is None else rows(scale, truth),
        certified=np.zeros(truth.shape, dtype=bool),
        confirmed=np.full(truth.shape, confirmed),
    )


def answer(
    gradients: Mapping[str, Numbers],
    *,
    engine: str = "torch",
    mode: Mode = "reverse",
    dtype: str = "float32",
    output: Numbers = 1.0,
    own_dtype: str | None = None,
) -> Evaluation:
    """The results of an engine. A gradient of None is missing."""
    return Evaluation(
        engine=engine,
        dtype=dtype,
        rounding=dtype,
        mode=mode,
        output=np.asarray(output, dtype=np.float64),
        gradients={
            name: Gradient(None if values is None else rows(values), own_dtype or dtype)
            for name, values in gradients.items()
        },
    )


def failed(
    kind: FailureKind,
    *,
    engine: str = "torch",
    mode: Mode = "reverse",
    node: int | None = None,
) -> Evaluation:
    """An engine without an answer."""
    failure = Failure(kind, f"it {kind}", "line 1 of its traceback", node)
    return Evaluation(engine, "float32", "float32", mode, failure=failure)


def case(
    evaluations: Sequence[Evaluation],
    blocks: Mapping[str, TruthBlock] | None,
    *,
    formula: str = "sin(x)",
    inputs: Mapping[str, Any] = ONE,
    dtype: str = "float32",
    output: Numbers = 1.0,
    wide: Mapping[str, Numbers] | None = None,
    hulls: Sequence[Hull] = (),
    reasons: Mapping[tuple[str, str], str] | None = None,
    tolerance: Tolerance | None = None,
    modes: Sequence[Mode] | None = None,
    spec: Spec | None = None,
    **fields: Any,
) -> Case:
    """These answers with this truth (None: no truth), and the same blocks in every mode.

    `wide` are the results of every engine in the other precision.
    """
    asked: Sequence[Mode] = modes or list(dict.fromkeys(e.mode for e in evaluations))
    truth = None
    if blocks is not None:
        truth = Truth(
            dtype=dtype,
            output=np.asarray(output, dtype=np.float64),
            output_error=np.zeros(np.shape(output)),
            blocks={(mode, name): made for mode in asked for name, made in blocks.items()},
            reasons=dict(reasons or {}),
            hulls={mode: tuple(hulls) for mode in asked},
        )
    given: dict[str, Any] = {
        "spec": spec or spec_of(formula, inputs, tolerance=tolerance),
        "point": None,
        "dtype": dtype,
        "values": {name: array(value) for name, value in inputs.items()},
        "projections": {mode: Projection() for mode in asked},
        "evaluations": tuple(evaluations),
        "truth": truth,
    }
    if wide is not None:
        given["wide"] = {
            (e.engine, e.mode): answer(wide, engine=e.engine, mode=e.mode, dtype="float64")
            for e in evaluations
        }
    return Case(**{**given, **fields})

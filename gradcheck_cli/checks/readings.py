"""What was computed, for people to look at."""

from __future__ import annotations

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Evaluation
from gradcheck_cli.domain.report import Reading


def readings_of(case: Case) -> tuple[Reading, ...]:
    """The readings of every evaluation of first order that has an output."""
    made = (_reading(case, one) for one in case.evaluations if one.mode in FIRST_ORDER)
    return tuple(reading for reading in made if reading is not None)


def _reading(case: Case, evaluation: Evaluation) -> Reading | None:
    """Gradients stand in it where their whole Jacobian was computed."""
    if evaluation.failure is not None or evaluation.output is None:
        return None
    projection = case.projections[evaluation.mode]
    gradients: dict[str, object] = {}
    if projection.rows is None and projection.columns is None:
        for name, gradient in evaluation.gradients.items():
            shape = (*evaluation.output.shape, *case.values[name].shape)
            values = gradient.values
            gradients[name] = None if values is None else values.reshape(shape).tolist()
    return Reading(
        engine=evaluation.engine,
        dtype=case.dtype,
        mode=evaluation.mode,
        point=case.point,
        output=evaluation.output.tolist(),
        gradients=gradients,
    )

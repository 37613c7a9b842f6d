"""The error of finite differences at many steps, compared with the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import CurveRequest
from gradcheck_cli.domain.curve import Curve, Line
from gradcheck_cli.domain.dtypes import FORMATS, Array, quiet
from gradcheck_cli.domain.evaluation import (
    FIRST_ORDER,
    Difference,
    Evaluation,
    Mode,
    Projection,
    Scheme,
)
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.finite_difference import FiniteDifferenceEngine, usual_step

SCHEMES: tuple[Scheme, ...] = ("forward", "central")
PER_DECADE = 4


@quiet
def curve(request: CurveRequest) -> Curve:
    """The error of the gradient for both schemes, for steps from the size of the input down to
    below the resolution of the dtype. If there are no lines, the `note` says why."""
    asked, engine = request.truth, FiniteDifferenceEngine()
    engine.load()
    mode = asked_mode(asked.projections)
    if mode is None:
        return Curve(
            request.name, asked.dtype, (), "its gradient is compared along cotangents only"
        )
    problem = replace(asked.problem(mode), mode="forward")
    right = _known_derivatives(request, mode)
    size = max((_largest(value[at]) for value, at in right.values()), default=0.0)
    if size == 0:
        note = f"`{asked.program.text.strip()}` has no gradient to compare with at this point"
        return Curve(request.name, asked.dtype, (), note)
    largest = max(_largest(asked.values[name]) for name in asked.wrt)
    steps, lines = _steps(asked.dtype, largest), []
    for scheme in SCHEMES:
        usual = float(usual_step(asked.dtype, scheme, np.asarray(largest)))
        errors: list[float | None] = []
        for step in (*steps, usual):
            answer = engine.evaluate(replace(problem, difference=Difference(scheme, step)))
            if answer.failure is not None:
                note = f"no difference can be taken: {answer.failure.message}"
                return Curve(request.name, asked.dtype, (), note)
            errors.append(_error(answer, right, size))
        lines.append(Line(scheme, steps, tuple(errors[:-1]), (usual, errors[-1])))
    return Curve(request.name, asked.dtype, tuple(lines))


def asked_mode(projections: Mapping[Mode, Projection]) -> Mode | None:
    """A requested mode that, like differences, has derivatives along inputs; None if there is
    none."""
    modes = (mode for mode in reversed(FIRST_ORDER) if mode in projections)
    return next((mode for mode in modes if projections[mode].rows is None), None)


def _known_derivatives(request: CurveRequest, mode: Mode) -> dict[str, tuple[Array, Array]]:
    """The truth of each input, and a mask of the entries with a finite derivative."""
    blocks = {name: request.known.blocks[mode, name] for name in request.truth.wrt}
    return {
        name: (block.value, (block.kind == PointKind.SMOOTH) & np.isfinite(block.value))
        for name, block in blocks.items()
    }


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _steps(dtype: str, largest: float) -> tuple[float, ...]:
    """Powers of ten, PER_DECADE a decade, from a tenth of eps to 1, times the power of ten of the
    largest number if that exceeds 1."""
    lowest = np.floor(np.log10(2 * FORMATS[dtype].unit_roundoff)) - 1
    highest = np.floor(np.log10(largest)) if 1 < largest < np.inf else 0.0
    count = round(-lowest * PER_DECADE) + 1
    return tuple(float(h) for h in 10.0 ** (highest + np.linspace(lowest, 0, count)))


def _error(answer: Evaluation, right: dict[str, tuple[Array, Array]], size: float) -> float | None:
    """The largest error relative to the largest entry; None if it is not finite."""
    worst = 0.0
    for name, (value, at) in right.items():
        gradient = answer.gradients[name].values
        assert gradient is not None
        # NumPy's maximum keeps a nan
        worst = float(np.maximum(worst, np.max(np.abs(gradient - value)[at], initial=0.0)))
    return worst / size if np.isfinite(worst) else None

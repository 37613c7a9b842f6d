"""Difference quotients at many steps, each against the truth, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.curve import Curve, Line
from gradcheck_cli.domain.difference import Difference, Scheme
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import Evaluation, Problem
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.domain.truth import PointKind, Truth
from gradcheck_cli.engines.finite_difference import FiniteDifferenceEngine, usual_step
from gradcheck_cli.engines.registry import Registered
from gradcheck_cli.run.plan import make_plan

SCHEMES: tuple[Scheme, ...] = ("forward", "central")
PER_DECADE = 4


def curve_of(spec: Spec, dtype: str, seed: int = 0) -> Curve:
    """The error of the gradient at the spec's first point, for both schemes, for steps from the
    size of the input down to where the dtype sees none. Raises UsageError where the gradient is not
    known, or is zero."""
    from gradcheck_cli.truth import compute

    engine = FiniteDifferenceEngine()
    known = {"finite-difference": Registered("finite-difference", "", engine, engine.load())}
    options = RunOptions(
        engines=Layered(override=("finite-difference",)),
        dtypes=Layered(override=(dtype,)),
        modes=Layered(override=("forward",)),
        seed=seed,
    )
    look = make_plan(replace(spec, order=1), options, known).looks[0]
    (problem,) = look.problems["finite-difference"]
    truth = compute(look.truth)
    largest = max(float(np.max(np.abs(problem.values[x]), initial=0.0)) for x in problem.wrt)
    steps = _steps(dtype, largest)
    lines = []
    for scheme in SCHEMES:
        usual = float(usual_step(dtype, scheme, np.asarray(largest)))
        *errors, there = (
            _error(engine, problem, truth, Difference(scheme, h)) for h in (*steps, usual)
        )
        lines.append(Line(scheme, steps, errors, (usual, there)))
    return Curve(spec.name, dtype, tuple(lines))


def _steps(dtype: str, largest: float) -> list[float]:
    """Powers of ten, PER_DECADE a decade, from a tenth of eps to 1, times the power of ten of the
    largest number, where that is more than 1."""
    lowest = np.floor(np.log10(2 * FORMATS[dtype].unit_roundoff)) - 1
    highest = np.floor(np.log10(largest)) if 1 < largest < np.inf else 0.0
    count = round(-lowest * PER_DECADE) + 1
    return [float(h) for h in 10.0 ** (highest + np.linspace(lowest, 0, count))]


def _error(
    engine: FiniteDifferenceEngine, problem: Problem, truth: Truth, difference: Difference
) -> float | None:
    answer = engine.evaluate(replace(problem, difference=difference))
    if answer.failure is not None:
        raise UsageError(f"no difference can be taken: {answer.failure.message}")
    pairs = _smooth(answer, truth).values()
    size = max((float(np.max(np.abs(right), initial=0.0)) for _, right in pairs), default=0.0)
    # NumPy's maximum keeps a nan
    differs = float(np.max([np.max(np.abs(g - right), initial=0.0) for g, right in pairs] or [0.0]))
    if size == 0:
        raise UsageError(
            f"`{problem.program.text.strip()}` has no gradient to compare with at this point",
            "where it is zero or does not exist, no error is relative to it",
        )
    return differs / size if np.isfinite(differs) else None


def _smooth(answer: Evaluation, truth: Truth) -> Mapping[str, tuple[Array, Array]]:
    """What was computed and what is right, at the entries that have a derivative."""
    found = {}
    for name, gradient in answer.gradients.items():
        block = truth.blocks[answer.mode, name]
        at = (block.kind == PointKind.SMOOTH) & np.isfinite(block.value)
        assert gradient.values is not None
        found[name] = gradient.values[at], block.value[at]
    return found

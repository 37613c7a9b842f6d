"""The curve of finite differences of one spec, computed in this process."""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.domain.case import CurveRequest
from gradcheck_cli.domain.curve import Curve
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.finite_difference import FiniteDifferenceEngine
from gradcheck_cli.engines.registry import Registered
from gradcheck_cli.run.plan import make_plan


def curve_of(spec: Spec, dtype: str) -> Curve:
    """The error of finite differences at the first point of the spec. Raises UsageError if the
    gradient is unknown or zero."""
    from gradcheck_cli.truth import compute
    from gradcheck_cli.truth.difference_curve import curve

    engine = FiniteDifferenceEngine()
    known = {"finite-difference": Registered("finite-difference", "", engine, engine.load())}
    options = RunOptions().only("finite-difference", dtype, "forward")
    look = make_plan(replace(spec, order=1), options, known).looks[0]
    drawn = curve(CurveRequest(spec.name, look.truth, compute(look.truth)))
    if not drawn.lines:
        raise UsageError(
            drawn.note, "a relative error needs a gradient that exists and is not zero"
        )
    return drawn

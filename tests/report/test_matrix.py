from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.domain.codes import Codes

from . import samples
from .writing import written


def test_a_row_for_each_spec_and_a_reason_for_each_difference() -> None:
    refused = replace(
        samples.nan_finding("torch"),
        engine="reference",
        code=Codes.UNSUPPORTED_OPERATION,
        severity="note",
        message="no such operation",
        cause=None,
    )
    one = samples.reciprocal_exp()
    one = replace(one, checks=samples.checks(), findings=(samples.nan_finding("torch"), refused))
    kink = replace(
        samples.relu_kink(),
        findings=(replace(samples.relu_kink().findings[0], engine=None),),
    )
    assert written("matrix", samples.report(one, kink, samples.trained())).splitlines() == [
        "| | the point | reference | torch | tensorflow |",
        "|---|---|---|---|---|",
        "| `linear_regression_trained` |  | pass | pass | pass |",
        "| `reciprocal_exp` |  | refused: GC705 | GC201 | pass |",
        "| `relu_at_zero` | GC401 kink | pass | pass | pass |",
        "",
        "- `reciprocal_exp`: torch: GC201 (float32), the gradient is nan, and the truth is a "
        "number; by `exp`. tensorflow: pass.",
        "- reference refuses `reciprocal_exp` (GC705): no such operation.",
    ]

"""What a failed engine's finding says, and where it points."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.domain.codes import CODES
from gradcheck_cli.judge.failures import dtype_finding, failure_finding
from tests.judge.making import answer, block, case, failed

FORMULA = "y = sin(x)\ny * 2"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("raised", "GC701"),
        ("crashed", "GC702"),
        ("timed-out", "GC703"),
        ("unsupported", "GC705"),
        ("wrong-shape", "GC103"),
        ("internal", "GC706"),
    ],
)
def test_finding_of_a_failure(kind: Any, code: str) -> None:
    failure = failed(kind, engine="tensorflow", mode="forward")
    finding = failure_finding(case([failure], None, modes=["forward"], point=2), failure)
    assert (finding.code, finding.severity) == (code, CODES[code].severity)
    assert (finding.engine, finding.mode, finding.dtype) == ("tensorflow", "forward", "float32")
    assert (finding.message, finding.detail) == (f"it {kind}", "line 1 of its traceback")
    assert (finding.input, finding.point, finding.entries) == (None, 2, ())


def test_it_points_at_the_operation_that_raised() -> None:
    spec = case([], None, modes=["reverse"], formula=FORMULA).spec
    (sine,) = [i for i, node in enumerate(spec.program.nodes) if node.op == "sin"]
    failure = failed("raised", node=sine)
    finding = failure_finding(case([failure], None, spec=spec), failure)
    assert (finding.span.line, finding.span.column, finding.span.end_column) == (1, 5, 11)


def test_it_points_at_the_output_where_nothing_is_known() -> None:
    failure = failed("crashed")
    finding = failure_finding(case([failure], None, formula=FORMULA), failure)
    assert (finding.span.line, finding.span.column) == (2, 1)


def test_dtype() -> None:
    evaluation = answer({"x": 1.0}, own_dtype="float64")
    finding = dtype_finding(case([evaluation], {"x": block(1.0)}), evaluation, "x", "float64")
    assert (finding.code, finding.severity, finding.input) == ("GC103", "error", "x")
    assert finding.message == "the gradient of `x` is float64, but its input is float32"

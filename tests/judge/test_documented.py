"""What an engine documents is reported with its size; what it does not document is still wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Judged

TORCH = ("torch",)
MODES = {1: {"reverse", "forward"}, 2: {"reverse-over-reverse", "forward-over-reverse"}}


@pytest.mark.parametrize(
    ("formula", "inputs", "dtype", "order", "severity"),
    [
        ("softplus(x)", {"x": 25.0}, "float64", 1, "note"),
        ("softplus(x)", {"x": 25.0}, "float64", 2, "warning"),
        ("softplus(x)", {"x": 45.0}, "float32", 2, "warning"),
        ("sum(softplus(3 * x) * sin(y))", {"x": [8.0, 1.0], "y": 2.0}, "float64", 1, "note"),
        ("mean(softplus(x @ x))", {"x": [[5.0, 1.0], [0.5, 0.2]]}, "float64", 2, "note"),
        ("bce(p, 0.3)", {"p": [1e-20, 0.5]}, "float32", 1, "warning"),
        ("bce(p, 0.3, reduction='none')", {"p": [1e-20, 0.5]}, "float64", 1, "warning"),
        ("bce(1e-20 * p, 0.3, reduction='sum')", {"p": 2.0}, "float64", 1, "warning"),
    ],
)
def test_a_documented_approximation(
    judged: Callable[..., Judged],
    formula: str,
    inputs: dict[str, Any],
    dtype: str,
    order: int,
    severity: str,
) -> None:
    modes = ("reverse", "forward")
    found = judged(formula, inputs, dtype=dtype, engines=TORCH, modes=modes, order=order)
    assert found.codes == ["GC305"]
    mine = [f for f in found.findings if f.mode in MODES[order]]
    assert {f.mode for f in mine} == MODES[order]
    assert {f.severity for f in mine} == {severity}
    for finding in found.findings:
        assert "relative error " in finding.message
        assert "threshold" in finding.message or "clamps" in finding.message
        assert all(check.status == "passed" for check in found.checks)


def test_a_value_that_is_bounded(judged: Callable[..., Judged]) -> None:
    found = judged("bce(p, 0.3)", {"p": 1e-50}, dtype="float64", engines=TORCH)
    (value,) = (f for f in found.of("GC305") if f.input is None)
    assert value.message.startswith("the output: 30; exact: 34.5388")
    assert found.codes == ["GC305"]


def test_another_engine_documents_nothing(judged: Callable[..., Judged]) -> None:
    found = judged("softplus(x)", {"x": 25.0}, dtype="float64", engines=("reference", *TORCH))
    assert {f.engine for f in found.findings} == {"torch"}


def test_what_is_off_for_another_reason_is_still_found(judged: Callable[..., Judged]) -> None:
    wrong = (
        "def up(u, x):\n    return u * 1.5\n\n"
        "@custom_gradient(up)\ndef f(x):\n    return x\n\n"
        "f(x) + softplus(x)"
    )
    assert "GC101" in judged(wrong, {"x": 25.0}, dtype="float64", engines=TORCH).codes
    lost = "log(1 + exp(x)) - softplus(x)"
    assert "GC305" not in judged(lost, {"x": 15.0}, dtype="float64", engines=TORCH).codes

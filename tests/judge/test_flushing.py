"""Subnormal inputs that an engine takes for 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.judge import flushed, judge
from gradcheck_cli.judge.gate import unexplained
from tests.judge.making import answer, block, case

TINY = 1e-40  # below the normal numbers of float32
INF = np.inf


def at_tiny(output: Any, gradient: Any, *, kept: Any, zero: Any) -> Case:
    """An engine's value and derivative at TINY, where `kept` is right there and `zero` at 0."""
    (y, slope), (y_0, slope_0) = kept, zero
    return case(
        [answer({"x": gradient}, output=output, engine="jax")],
        {"x": block(slope)},
        output=y,
        inputs={"x": TINY},
        kept={"reverse": answer({"x": slope}, output=y, engine="reference")},
        zero={"reverse": answer({"x": slope_0}, output=y_0, engine="reference")},
    )


def test_what_is_right_at_zero_is_told_once() -> None:
    """log(1e-40) is -92, and -inf to who sees 0."""
    made = at_tiny(-INF, INF, kept=(-92.1, 1e30), zero=(-INF, INF))
    checks, (found,) = judge(made)
    assert (found.code, found.severity, found.engine) == ("GC402", "warning", "jax")
    assert "`x`: jax treats numbers below 1.18e-38 as 0" in found.message
    assert [check.status for check in checks] == ["passed"]


@pytest.mark.parametrize(
    ("output", "gradient", "kept", "zero"),
    [
        (0.5, np.nan, (-92.1, 1e30), (-INF, INF)),  # the value is right at neither
        (0.0, np.nan, (1e-20, 1e20), (0.0, np.nan)),  # nan is right nowhere
        (1.0, 3.0, (1.0, 1.0), (1.0, 1.0)),  # 0 explains nothing: both have the same answer
        (1.0, 3.0, (1.0, 1.0), (1.0, 7.0)),
    ],
)
def test_what_zero_does_not_explain_is_judged(
    output: float, gradient: float, kept: Any, zero: Any
) -> None:
    codes = {f.code for f in judge(at_tiny(output, gradient, kept=kept, zero=zero))[1]}
    assert codes
    assert "GC402" not in codes


def test_which_inputs_are_flushed() -> None:
    made = at_tiny(0.0, 0.0, kept=(0.0, 0.0), zero=(0.0, 0.0))
    assert flushed(made) == {"x": 0.0}
    assert flushed(case([], None, inputs={"x": [0.0, 1.0], "n": 3})) == {}


def test_the_last_gate_knows_of_all_inputs() -> None:
    """What an engine takes for 0 in one input may be seen in the derivative by another."""
    inputs = {"x": TINY, "y": 2.0}
    slopes = {"x": INF, "y": 3.0}
    made = case(
        [answer(slopes, output=-INF, engine="jax")],
        {"x": block(1e30), "y": block(5.0)},
        output=-92.1,
        inputs=inputs,
        kept={"reverse": answer({"x": 1e30, "y": 5.0}, output=-92.1, engine="reference")},
        zero={"reverse": answer(slopes, output=-INF, engine="reference")},
    )
    checks, findings = judge(made)
    assert {check.input for check in checks} == {"x", "y"}
    assert list(unexplained(checks, findings)) == []

"""One-sided derivatives along directions that move several tied entries at once."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.truth import Hull
from tests.conftest import truth_of


def hulls_of(formula: str, inputs: dict) -> tuple[Hull, ...]:
    return truth_of(formula, inputs).hulls["reverse"]


def within(hulls: tuple[Hull, ...], **gradient: list[float]) -> bool:
    """Whether a gradient of one row lies between the one-sided derivatives everywhere."""
    for hull in hulls:
        along = sum(np.dot(gradient[name], weights) for name, weights in hull.direction.items())
        if not hull.lower[0] - hull.error[0] <= along <= hull.upper[0] + hull.error[0]:
            return False
    return True


@pytest.mark.parametrize(
    ("gradient", "right"),
    [
        ([1, 0, 0], True),
        ([0.5, 0.5, 0], True),
        ([0.3, 0.7, 0], True),
        ([1, 1, 0], False),
        ([0, 0, 0], False),
    ],
)
def test_tie_of_max(gradient: list[float], right: bool) -> None:
    assert within(hulls_of("max(x)", {"x": np.array([2.0, 2.0, 1.0])}), x=gradient) is right


@pytest.mark.parametrize(
    ("x", "y", "right"), [(1, 0, True), (0.5, 0.5, True), (1, 1, False), (0, 0, False)]
)
def test_tie_of_maximum_over_two_inputs(x: float, y: float, right: bool) -> None:
    assert within(hulls_of("maximum(x, y)", {"x": 3.0, "y": 3.0}), x=[x], y=[y]) is right


def test_norm_at_zero_is_the_unit_ball() -> None:
    hulls = hulls_of("norm(x)", {"x": np.zeros(3)})
    assert within(hulls, x=[0, 0, 0])
    assert within(hulls, x=[0.5, 0.5, 0.5])
    assert not within(hulls, x=[1, 1, 1])  # each between -1 and 1, together not


def test_smooth_points_and_single_kinks_need_none() -> None:
    assert hulls_of("sum(sin(x))", {"x": np.ones(3)}) == ()
    assert hulls_of("abs(x)", {"x": 0.0}) == ()

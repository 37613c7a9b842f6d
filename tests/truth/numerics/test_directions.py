"""Derivatives along one entry and along whole directions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.numerics.directions import Sampled

U = 2.0**-53
Values = Mapping[str, np.ndarray]


def sampled(function, values: Values, bounds=None) -> Sampled:
    """A scalar function of several inputs, its noise four roundings of its value."""

    def at(there: Values) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.atleast_1d(function(there))

    zero = at(values)
    return Sampled(
        at, values, bounds or {}, 4 * U * np.abs(zero), zero, lambda v, y: 4 * U * np.abs(y)
    )


def test_one_entry_of_several() -> None:
    values = {"x": np.array([[1.0, 2.0], [3.0, 4.0]]), "y": np.array(5.0)}
    function = sampled(lambda v: np.sum(np.sin(v["x"])) * v["y"], values)
    slope = function.along_entry("x", 2)
    assert slope.estimate.value[0] == pytest.approx(5 * np.cos(3.0), abs=slope.estimate.error[0])
    assert slope.estimate.error[0] < 1e-9
    assert slope.sides.kind[0] == PointKind.SMOOTH
    slope = function.along_entry("y", 0)
    assert slope.estimate.value[0] == pytest.approx(np.sum(np.sin(values["x"])), rel=1e-10)


def test_mixed_scales_in_one_input_get_their_own_steps() -> None:
    x = np.array([1e-6, 1.0, 1e5])
    function = sampled(lambda v: np.sum(np.log(v["x"])), {"x": x})
    for k in range(3):
        estimate = function.along_entry("x", k).estimate
        assert abs(estimate.value[0] - 1 / x[k]) <= estimate.error[0] <= 1e-8 / x[k]


def test_zero_among_small_numbers_takes_their_scale() -> None:
    x = np.array([0.0, 1e-7])
    function = sampled(lambda v: np.sum(np.sin(1e7 * v["x"])), {"x": x})
    estimate = function.along_entry("x", 0).estimate
    assert abs(estimate.value[0] - 1e7) <= estimate.error[0] <= 1.0


def test_direction_over_several_inputs() -> None:
    values = {"x": np.array([1.0, 2.0]), "y": np.array(3.0)}
    function = sampled(lambda v: v["x"][0] * v["x"][1] * v["y"], values)
    slope = function.along({"x": np.array([1.0, -1.0]), "y": np.array(2.0)})
    # 2*3*1 - 1*3*1 + 1*2*2
    assert slope.estimate.value[0] == pytest.approx(7, abs=slope.estimate.error[0])
    assert slope.estimate.error[0] < 1e-9


def test_direction_stays_inside_the_bounds_of_every_entry() -> None:
    seen: list[np.ndarray] = []

    def function(v: Values) -> float:
        seen.append(v["x"])
        return float(np.sum(np.sqrt(v["x"])))

    values = {"x": np.array([0.5, 0.01])}
    sampled(function, values, {"x": (0.0, 0.6)}).along({"x": np.array([1.0, -3.0])})
    assert np.min(seen) >= 0.0
    assert np.max(seen) <= 0.6


def test_at_an_edge_the_inner_side_is_the_derivative() -> None:
    function = sampled(lambda v: np.exp(v["x"]), {"x": np.array(1.0)}, {"x": (1.0, 4.0)})
    slope = function.along_entry("x", 0)
    assert abs(slope.estimate.value[0] - np.e) <= slope.estimate.error[0] <= 1e-8


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_there_is_nothing_next_to_infinity(value: float) -> None:
    function = sampled(lambda v: np.tanh(v["x"]), {"x": np.array(value)})
    assert np.isinf(function.along_entry("x", 0).estimate.error[0])


def test_steepest_slope_is_that_of_the_function_not_of_the_point() -> None:
    function = sampled(lambda v: np.cos(v["x"]), {"x": np.array(0.0)})
    slope = function.along_entry("x", 0)
    assert abs(slope.estimate.value[0]) <= slope.estimate.error[0]
    assert 0.05 < slope.steepest[0] < 1


@pytest.mark.parametrize(("expected", "right"), [(1e12, True), (-1e12, False)])
def test_a_function_that_is_a_line_only_next_to_zero(expected: float, right: bool) -> None:
    function = sampled(lambda v: v["x"] / (abs(v["x"]) + 1e-12), {"x": np.array(0.0)})
    estimate = function.along_entry("x", 0, np.array([expected])).estimate
    assert (abs(estimate.value[0] - expected) <= estimate.error[0]) == right
    assert not right or estimate.error[0] < 1e6

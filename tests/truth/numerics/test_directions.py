"""Derivatives along one entry and along whole directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.layers.callables import quick_of
from gradcheck_cli.truth.numerics.directions import Sampled, Slope
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer

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


Function = Callable[[float], float]

# away from 0, at 0, and the derivative at 0
GUARDED: dict[str, tuple[Function, float, float]] = {
    "sinc'": (lambda x: (x * np.cos(x) - np.sin(x)) / x**2, 0.0, -1 / 3),
    "(1 - cos) / x": (lambda x: (1 - np.cos(x)) / x, 0.0, 0.5),
    "((1 - cos) / x^2)'": (lambda x: (x * np.sin(x) - 2 * (1 - np.cos(x))) / x**3, 0.0, -1 / 12),
    "(exp - 1) / x": (lambda x: (np.exp(x) - 1) / x, 1.0, 0.5),
    "((exp - 1) / x)'": (lambda x: (x * np.exp(x) - np.exp(x) + 1) / x**2, 0.5, 1 / 3),
    "log(1 + x) / x": (lambda x: np.log(1 + x) / x, 1.0, -0.5),
    "(tanh / x)'": (lambda x: (x / np.cosh(x) ** 2 - np.tanh(x)) / x**2, 0.0, -2 / 3),
    "Langevin": (lambda x: 1 / np.tanh(x) - 1 / x, 0.0, 1 / 3),
    "Langevin'": (lambda x: 1 / x**2 - 1 / np.sinh(x) ** 2, 1 / 3, 0.0),
    "log cosh / x": (lambda x: np.log(np.cosh(x)) / x, 0.0, 0.5),
}

# with another slope next to the point than a little farther off
WITH_A_SLOPE_OF_ITS_OWN: dict[str, tuple[Function, float, float]] = {
    "tanh": (lambda x: x + 1e-9 * np.tanh(1e9 * x), 0.0, 2.0),
    "dead zone": (lambda x: 0.0 if abs(x) < 1e-6 else np.sin(x), 0.0, 0.0),
    "dead zone of noise": (lambda x: 0.0 if abs(x) < 1e-3 else (1 - np.cos(x)) / x, 0.0, 0.0),
}


def slope_at_zero(of: Function, at_0: float, expected: float) -> Slope:
    """By differences, as of a layer."""

    def several(many: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray:
        numbers = [float(at["x"][0]) for at in many]
        return np.array([[at_0 if x == 0 else of(x)] for x in numbers])

    values, zero = {"x": np.array([0.0, 0.5])}, np.array([at_0])
    least = from_size(np.ones(1), 16)

    def measure() -> np.ndarray:
        found, _ = measured_of_layer(lambda at: several([at])[0], values, zero, False, "float64")
        return np.fmax(least, 2 * found)

    with np.errstate(all="ignore"):
        quick = quick_of(several, values, {}, zero, least, measure, "float64")
        return quick.along_entry("x", 0, np.array([expected]))


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_bars_hold_the_derivative_at_a_guard(name: str, wrong: float) -> None:
    """A wrong number is outside of the bar. How wide that is depends on the rounding of NumPy's
    functions, which differs between processors."""
    of, at_0, derivative = GUARDED[name]
    for expected in (derivative, wrong):
        estimate = slope_at_zero(of, at_0, expected).estimate
        least_wrong = 0.2 if expected == derivative else abs(wrong - derivative)
        assert abs(estimate.value[0] - derivative) <= estimate.error[0] < least_wrong


@pytest.mark.parametrize("name", WITH_A_SLOPE_OF_ITS_OWN)
def test_a_slope_that_holds_next_to_the_point_alone_is_no_noise(name: str) -> None:
    of, at_0, derivative = WITH_A_SLOPE_OF_ITS_OWN[name]
    estimate = slope_at_zero(of, at_0, 0.25).estimate
    assert abs(estimate.value[0] - derivative) <= estimate.error[0] < 0.1

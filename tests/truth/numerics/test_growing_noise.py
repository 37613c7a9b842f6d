"""Functions with a guard at one point have no rounding there, and much of it nearby."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from gradcheck_cli.truth.layers.callables import quick_of
from gradcheck_cli.truth.numerics.directions import Slope
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer

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
    of, at_0, derivative = GUARDED[name]
    for expected in (derivative, wrong):
        estimate = slope_at_zero(of, at_0, expected).estimate
        assert abs(estimate.value[0] - derivative) <= estimate.error[0] < 0.2


@pytest.mark.parametrize("name", WITH_A_SLOPE_OF_ITS_OWN)
def test_a_slope_that_holds_next_to_the_point_alone_is_no_noise(name: str) -> None:
    of, at_0, derivative = WITH_A_SLOPE_OF_ITS_OWN[name]
    estimate = slope_at_zero(of, at_0, 0.25).estimate
    assert abs(estimate.value[0] - derivative) <= estimate.error[0] < 0.1

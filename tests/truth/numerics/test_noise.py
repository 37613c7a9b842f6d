"""How much rounding there is in a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.truth.numerics.noise import (
    from_size,
    from_sums,
    largest_of,
    measured,
    measured_of_layer,
)

U = 2.0**-53


def test_noise_of_a_sum_is_at_least_its_roundings() -> None:
    noise = from_sums(np.array([1.0, 0.0]), np.array([3e-16, 2e-16]), np.inf)
    assert noise[0] >= 3e-16 + U
    assert noise[1] >= 2e-16


@pytest.mark.parametrize("sums", [np.inf, np.nan])
def test_sums_that_are_no_numbers_leave_it_open(sums: float) -> None:
    assert from_sums(np.array([2.0]), np.array([sums]), 7.0) == 7.0


def test_values_that_are_no_numbers_have_no_noise() -> None:
    assert list(from_size(np.array([np.nan, np.inf, 0.0]), 9)) == [0.0, 0.0, 0.0]


def test_measured_noise_is_that_of_the_roundings() -> None:
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(50, 200))
    weights[:, 100:] = -weights[:, :100]
    x = rng.normal(size=200)
    x[100:] = x[:100] * (1 + 1e-9)  # the sums cancel to nine digits

    def function(v: dict) -> np.ndarray:
        return weights @ v["x"]

    zero = function({"x": x})
    noise = measured(function, {"x": x}, zero)
    exact = np.array([float(sum(map(_exact, w * 1.0, x))) for w in weights])
    assert np.all(np.abs(zero - exact) <= 8 * noise)
    assert np.all(noise <= 1000 * U * np.abs(weights) @ np.abs(x))
    assert np.median(noise) > 30 * U * np.median(np.abs(zero))


def _exact(a: float, b: float):
    from fractions import Fraction

    return Fraction(a) * Fraction(b)


def test_smooth_change_is_not_taken_for_noise() -> None:
    noise = measured(lambda v: np.exp(v["x"]), {"x": np.array([1.0])}, np.exp(np.array([1.0])))
    assert noise[0] <= 100 * U


def test_kinks_at_zeros_and_ties_are_not_taken_for_noise() -> None:
    def function(v: dict) -> np.ndarray:
        return np.array([np.max(v["x"]), np.sum(np.abs(v["y"]))])

    values = {"x": np.array([3.0, 3.0, 1.0]), "y": np.zeros(3)}
    assert np.all(measured(function, values, function(values)) <= 100 * U)


def test_integer_inputs_stay_where_they_are() -> None:
    def function(v: dict) -> np.ndarray:
        assert v["n"].dtype.kind == "i"
        assert np.array_equal(v["n"], [3, 4])
        return v["x"] * v["n"]

    values = {"x": np.array([1.0, 2.0]), "n": np.array([3, 4])}
    assert np.all(measured(function, values, function(values)) < 1e-14)


def test_points_that_are_not_finite_give_no_noise() -> None:
    noise = measured(lambda v: np.full(1, np.nan), {"x": np.array([1.0])}, np.array([np.nan]))
    assert noise[0] == 0.0


@pytest.mark.parametrize("x", [9.0, 12.0])
def test_what_large_numbers_leave_comes_in_their_last_digits(x: float) -> None:
    def left(v: dict) -> np.ndarray:
        return np.log1p(np.exp(v["x"])) - v["x"]

    start = np.array([x])  # at 9 each move is one digit, at 12 less than one
    noise = measured(left, {"x": start}, left({"x": start}), grains=True)
    assert np.spacing(x) / 2 <= noise[0] <= 100 * np.spacing(x)


def test_a_value_that_nothing_moves_has_no_noise() -> None:
    start = np.array([-3.0])
    flat = measured(lambda v: np.maximum(v["x"], 0), {"x": start}, np.zeros(1), grains=True)
    assert flat == 0


def test_values_that_were_float32_on_their_way_are_noisy() -> None:
    x = np.array([0.3, -1.7, 1e-3])

    def cast(v: dict) -> np.ndarray:
        return np.tanh(v["x"].astype(np.float32)).astype(np.float64) * v["x"]

    noise, was_float32 = measured_of_layer(cast, {"x": x}, cast({"x": x}), True, "float64")
    assert was_float32
    assert np.all(noise > 2.0**-27 * np.abs(cast({"x": x})))


@pytest.mark.parametrize("function", [np.exp, lambda x: np.sin(1e4 * x), lambda x: 1 / (x - 0.31)])
def test_what_a_function_does_itself_is_no_noise(function) -> None:
    x = np.array([0.3, -1.7, 2.0])
    zero = function(x)
    noise, was_float32 = measured_of_layer(
        lambda v: function(v["x"]), {"x": x}, zero, True, "float64"
    )
    assert not was_float32
    assert np.all(noise < 1e-10 * np.maximum(1, np.abs(function(x))))


def test_few_points_may_show_no_noise_of_float64() -> None:
    """That there is more of it elsewhere is none of float32."""
    rng = np.random.default_rng(0)
    for x in rng.standard_normal((40, 5)):
        _, was_float32 = measured_of_layer(
            lambda v: np.sin(v["x"]), {"x": x}, np.sin(x), True, "float64"
        )
        assert not was_float32


def test_a_pole_at_a_zero_is_not_taken_for_noise() -> None:
    def pole(values):
        x, y = values["x"]
        return np.array([y / x if x else 0.0])

    zero = np.zeros(1)
    assert measured(pole, {"x": np.array([0.0, 2.0])}, zero)[0] < 100


@pytest.mark.parametrize("factor", [1.0, np.pi, 1 / 3, 0.1])
@pytest.mark.parametrize("exponent", range(-12, -3))
def test_numbers_on_the_way_are_rounded_anew_at_every_point(factor: float, exponent: int) -> None:
    """Steps of whole ulps of 1 + x would leave its rounding the same at all points."""

    def function(values):
        return np.array([1.0, -1.0]) + factor * values["x"]

    x = np.array([1.1 * 2.0**exponent])
    least = U / 8
    noise = measured(function, {"x": x}, function({"x": x}), grains=True)
    assert np.all(noise >= least), noise / U


def test_the_rounding_of_inputs_at_a_root_is_no_float32() -> None:
    x = np.array([1.0000001])
    zero = np.log(x)
    _, was_float32 = measured_of_layer(lambda v: np.log(v["x"]), {"x": x}, zero, True, "float64")
    assert not was_float32


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (np.floor, [1e9, 3e9]),
        (np.round, [-4e10, 1.0]),
        (np.floor_divide, [6e8, 2.5]),
        (np.sqrt, [0.0, 0.5]),
        (np.cbrt, [0.0, 2.0]),
    ],
)
def test_steps_and_steep_points_of_a_function_are_no_float32(function, x: list[float]) -> None:
    start = np.array(x)

    def layer(values):
        v = values["x"]
        return function(v, 1.0) if function is np.floor_divide else function(v)

    zero = layer({"x": start})
    _, was_float32 = measured_of_layer(layer, {"x": start}, zero, True, "float64")
    assert not was_float32


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3])
def test_a_part_that_was_float32_is_noisy_beside_another(offset: float) -> None:
    x = np.array([0.37, -1.7])

    def cast(v: dict) -> np.ndarray:
        return v["x"].astype(np.float32).astype(np.float64) + offset

    _, was_float32 = measured_of_layer(cast, {"x": x}, cast({"x": x}), True, "float64")
    assert was_float32


def test_the_largest_size_is_that_of_a_finite_number() -> None:
    assert largest_of(np.array([1.0, -3.0, 2.0])) == 3.0
    assert largest_of(np.array([1.0, np.inf, np.nan, -2.0])) == 2.0
    assert largest_of(np.array([np.nan, -np.inf])) == largest_of(np.zeros(0)) == 0.0


@pytest.mark.parametrize("x", [0.0, 1e-30, -1e-17, 1e-9])
def test_beside_a_tiny_number_one_has_its_last_digit(x: float) -> None:
    start = np.array([x])

    def rounded_sum(v: dict) -> np.ndarray:
        return np.log(1 - v["x"])

    noise, _ = measured_of_layer(
        rounded_sum, {"x": start}, rounded_sum({"x": start}), True, "float64"
    )
    assert U / 4 <= noise[0] <= 100 * U


@pytest.mark.parametrize("function", [np.sin, np.log, np.sqrt, np.exp, lambda x: x**0.1])
@pytest.mark.parametrize("x", [1e-30, 1e-17, 1e-9])
def test_a_value_that_is_larger_a_little_way_off_is_not_noisy_here(x: float, function: Any) -> None:
    start, value = np.array([x]), function(np.array([x]))
    noise, _ = measured_of_layer(lambda v: function(v["x"]), {"x": start}, value, True, "float64")
    assert noise[0] <= 100 * U * abs(value[0])

"""A numerical derivative is of use only with an error bar that contains the true one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from gradcheck_cli.truth.numerics.differences import (
    Estimate,
    Ladder,
    Line,
    central,
    climb,
    exact_steps,
    one_sided,
    second,
)

U = 2.0**-53
Function = Callable[[float], float]


def line_of(at: Callable[[float], np.ndarray], *how: Any) -> Line:
    """The line whose value at each step is that of `at`."""
    return Line(lambda steps: np.stack([at(step) for step in steps]), *how)


def differentiate(
    function: Function,
    x: float,
    noise: float | None = None,
    low: float = -np.inf,
    high: float = np.inf,
) -> tuple[Ladder, Estimate]:
    """The derivative at x; `noise` is four roundings of the value unless given."""

    def at(step: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array([function(x + step)])

    zero = at(0.0)
    level = np.array([4 * U * abs(zero[0]) if noise is None else noise])
    return climb(line_of(at, zero, level, abs(x) or 1.0, low - x, high - x, x))


# name, function, x, true derivative, noise of a value, widest useful relative error bar
KNOWN: list[tuple[str, Function, float, object, float | None, float]] = [
    ("exp(-x) at 20", lambda x: np.exp(-x), 20.0, lambda x: -mp.exp(-x), None, 1e-9),
    ("x^2 at 1e8", lambda x: x * x, 1e8, lambda x: 2 * x, None, 1e-12),
    ("log at 1e-5", np.log, 1e-5, lambda x: 1 / x, None, 1e-9),
    ("sin(200 x)", lambda x: np.sin(200 * x), 0.7, lambda x: 200 * mp.cos(200 * x), 1e-13, 1e-7),
    ("sin(1e6 x)", lambda x: np.sin(1e6 * x), 0.7, lambda x: 1e6 * mp.cos(1e6 * x), 4e-10, 1e-4),
    ("1/x at 1e-4", lambda x: 1 / x, 1e-4, lambda x: -1 / x**2, None, 1e-9),
    ("1/exp at 100", lambda x: 1 / np.exp(x), 100.0, lambda x: -mp.exp(-x), 1e-57, 1e-9),
    ("exp at 700", np.exp, 700.0, mp.exp, 1e291, 1e-8),
    ("exp at 1e-300", np.exp, 1e-300, mp.exp, None, 1e-11),
    ("exp at 0", np.exp, 0.0, mp.exp, None, 1e-11),
    ("sin at 0", np.sin, 0.0, mp.cos, None, 1e-11),
    ("tanh at 5", np.tanh, 5.0, lambda x: 1 - mp.tanh(x) ** 2, None, 1e-8),
    ("x^50 at 1.1", lambda x: x**50, 1.1, lambda x: 50 * x**49, 1e-13, 1e-9),
    ("sin(2 pi x) at 1", lambda x: np.sin(2 * np.pi * x), 1.0, None, 4e-15, 1e-10),
    ("sin(2 pi 1024 x) at 1", lambda x: np.sin(2048 * np.pi * x), 1.0, None, 4e-12, 1e-7),
    ("x at 1e300", lambda x: x, 1e300, lambda x: mp.mpf(1), None, 1e-11),
    ("x at -1e-300", lambda x: x, -1e-300, lambda x: mp.mpf(1), None, 1e-11),
    ("1e200 x at 1e-200", lambda x: 1e200 * x, 1e-200, lambda x: mp.mpf(1e200), None, 1e-11),
    ("1e8 + x at 1", lambda x: 1e8 + x, 1.0, lambda x: mp.mpf(1), None, 1e-5),
    ("abs beside its kink", abs, 1e-6, lambda x: mp.mpf(1), None, 1e-9),
    ("sqrt near 0", np.sqrt, 1e-12, lambda x: 1 / (2 * mp.sqrt(x)), None, 1e-9),
]


@pytest.mark.parametrize("case", KNOWN, ids=[row[0] for row in KNOWN])
def test_error_bar_contains_the_derivative_and_is_narrow(case: tuple) -> None:
    name, function, x, derivative, noise, useful = case
    _, estimate = differentiate(function, x, noise)
    factor = 2048 if "1024" in name else 2
    with mp.workdps(50):
        if (
            derivative is None
        ):  # the constants of the function are rounded, so it is not at its root
            true = factor * mp.mpf(np.pi) * mp.cos(factor * mp.mpf(np.pi) * mp.mpf(x))
        else:
            true = derivative(mp.mpf(x))
        off = float(abs(mp.mpf(float(estimate.value[0])) - true))
    assert off <= estimate.error[0]
    assert estimate.error[0] <= useful * abs(float(true))


def test_cancelling_function_has_a_bar_as_wide_as_its_noise() -> None:
    # (1 - cos x) / x^2 at 1e-7 is noise of relative size 1e-2 and more; the derivative is -8e-9
    _, estimate = differentiate(lambda x: (1 - np.cos(x)) / x**2, 1e-7, noise=1e-2)
    assert abs(estimate.value[0] - -1e-7 / 12) <= estimate.error[0]


@pytest.mark.parametrize("x", [0.0, 1.0, -3e-7, 5e200])
def test_constant_has_no_derivative_to_speak_of(x: float) -> None:
    _, estimate = differentiate(lambda _: 3.0, x)
    assert estimate.value[0] == 0.0
    assert estimate.error[0] <= 1e-13 / (abs(x) or 1.0)


def test_outputs_of_very_different_scale_each_get_their_own_steps() -> None:
    x = 0.7
    functions: list[Function] = [
        lambda t: 1e-6 * np.sin(t),
        np.sin,
        lambda t: 1e6 * np.sin(t),
        lambda t: np.sin(300 * t),
    ]
    zero = np.array([f(x) for f in functions])
    noise = 4 * U * np.array([1e-6, 1, 1e6, 300])
    line = line_of(lambda h: np.array([f(x + h) for f in functions]), zero, noise, x)
    _, estimate = climb(replace(line, base=x))
    true = np.array([1e-6, 1, 1e6, 0]) * np.cos(x)
    true[3] = 300 * np.cos(300 * x)
    assert np.all(np.abs(estimate.value - true) <= estimate.error)
    assert np.all(estimate.error <= 1e-8 * np.abs(true))


def test_no_value_outside_the_domain_is_asked_for() -> None:
    asked: list[float] = []

    def log(x: float) -> float:
        asked.append(x)
        return float(np.log(x))

    _, estimate = differentiate(log, 0.01, low=0.005, high=0.0105)
    assert min(asked) >= 0.005
    assert max(asked) <= 0.0105
    assert abs(estimate.value[0] - 100) <= estimate.error[0] <= 1e-6


def test_edge_of_the_domain_leaves_one_side() -> None:
    ladder, estimate = differentiate(np.exp, 1.0, low=1.0)
    assert np.isinf(estimate.error[0])
    above, below = one_sided(ladder, +1), one_sided(ladder, -1)
    assert abs(above.value[0] - np.e) <= above.error[0] <= 1e-8
    assert np.isinf(below.error[0])


def test_steps_that_leave_the_finite_range_are_passed_over() -> None:
    # at the first steps exp overflows above 709.78
    _, estimate = differentiate(np.exp, 709.0, noise=1e294)
    assert abs(estimate.value[0] / np.exp(709.0) - 1) < 1e-7


def test_pole_next_to_zero_is_not_looked_at_from_afar() -> None:
    # 1/x at 1e-200 has derivative -1e400; steps near 1 would see a tame function
    _, estimate = differentiate(lambda x: 1 / x, 1e-200)
    assert not np.isfinite(estimate.error[0])


def test_steps_near_one_help_next_to_zero() -> None:
    _, estimate = differentiate(lambda x: np.exp(x) + 3, 1e-15, noise=2e-15)
    assert abs(estimate.value[0] - 1) <= estimate.error[0] <= 1e-12


def test_accidental_agreement_at_long_steps_is_not_believed() -> None:
    # steps of 2e7 and below against a period of 6: some levels agree within 1e-10 by accident
    x = -94414400.0

    def function(t: float) -> float:
        return float(np.cos(t) + 2 * t)

    expected = np.array([2 - np.sin(x)])
    zero = np.array([function(x)])
    line = line_of(lambda h: np.array([function(x + h)]), zero, 4 * U * np.abs(zero), abs(x))
    _, estimate = climb(replace(line, base=x), expected)
    assert abs(estimate.value[0] - expected[0]) <= estimate.error[0] <= 1e-4


def test_wrong_expectation_changes_nothing() -> None:
    zero = np.array([np.exp(1.0)])
    line = line_of(lambda h: np.array([np.exp(1.0 + h)]), zero, 4 * U * zero, 1.0)
    _, estimate = climb(replace(line, base=1.0), expected=np.array([-3.0]))
    assert abs(estimate.value[0] - np.e) <= estimate.error[0] <= 1e-9


def test_noise_that_grows_with_the_step_widens_the_bar() -> None:
    # the value at 0 is exact, so that its own noise says nothing about the others
    rng = np.random.default_rng(0)

    def shaky(h: float) -> np.ndarray:
        return np.array([h + 1e-6 * abs(h) * rng.uniform(-1, 1)])

    line = line_of(shaky, np.zeros(1), np.zeros(1), 1.0)
    _, estimate = climb(replace(line, noise_of=lambda h, _: np.array([1e-6 * abs(h)])))
    assert abs(estimate.value[0] - 1) <= estimate.error[0]
    assert estimate.error[0] >= 1e-6


def test_steps_can_be_taken_exactly() -> None:
    steps = exact_steps(np.array([0.1, 1e-9, 3e-17]), 1.7)
    assert np.all((1.7 + steps) - 1.7 == steps)


@pytest.mark.parametrize("order", [2, 4, 6])
def test_central_difference_is_exact_for_polynomials(order: int) -> None:
    h = 0.25 * 2.0 ** -np.arange(4)
    values = [(1 + t) ** order for t in (*h, *-h)]
    plus, minus = np.array(values[:4])[:, None], np.array(values[4:])[:, None]
    ladder = Ladder(h, plus, minus, np.zeros((4, 1)), np.ones(1))
    assert central(ladder).value[0] == pytest.approx(order, rel=1e-14)


def second_derivative(function: Function, x: float) -> Estimate:
    """With steps in units of the size of x."""
    scale = abs(x) or 1.0

    def at(step: float) -> np.ndarray:
        return np.array([function(x + step * scale)])

    zero = at(0.0)
    ladder, _ = climb(line_of(at, zero, 4 * U * np.fmax(abs(zero), 1.0), 1.0))
    return second(ladder)


@pytest.mark.parametrize(
    ("function", "x", "right"),
    [
        (np.sin, 0.7, -0.49 * np.sin(0.7)),
        (np.exp, -3.0, 9 * np.exp(-3.0)),
        (np.tanh, 0.0, 0.0),
        (lambda x: x**3, -2.0, -48.0),
        (lambda x: 3 * x + 1, 5.0, 0.0),
        (lambda x: 1 / (1 + 25 * x * x), 0.0, -50.0),
    ],
)
def test_the_bar_of_a_second_difference_contains_the_true_one(
    function: Function, x: float, right: float
) -> None:
    found = second_derivative(function, x)
    assert abs(found.value[0] - right) <= found.error[0] <= 1e-8 * max(1.0, abs(right))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * abs(x),
        lambda x: max(x, 0.0) ** 2,
        lambda x: x * x + 0.05 * x * abs(x),
        lambda x: np.cos(x) + x * abs(x),
    ],
)
def test_what_bends_differently_on_both_sides_has_no_second_difference(function: Function) -> None:
    assert np.isinf(second_derivative(function, 0.0).error[0])

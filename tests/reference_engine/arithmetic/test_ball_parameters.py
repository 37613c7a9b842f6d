"""Derivatives by a parameter are enclosed by values of the function alone."""

from __future__ import annotations

import math

import mpmath
import pytest
from flint import acb, arb

from reference_engine.arithmetic.arbs import NotInBalls, precision
from reference_engine.arithmetic.ball_functions import in_float64
from reference_engine.arithmetic.ball_parameters import INCOMPLETE, derivative
from tests.every import first


def product(x: acb, y: acb) -> acb:
    return x.exp() * y.sin()


@pytest.mark.parametrize("orders", [(1, 0), (0, 1), (2, 0), (1, 1), (3, 0), (2, 2)])
@pytest.mark.parametrize("radius", [0.0, 1e-25])
def test_the_derivative_is_inside_and_the_ball_is_narrow(
    orders: tuple[int, int], radius: float
) -> None:
    """Each derivative of sin is one by a quarter of a turn further on; those of exp are itself."""
    with precision(120):
        x, y = arb(0.75, radius), arb(-1.25, radius)
        found = derivative(product, (x, y), orders, (arb(1), arb(1)))
    with precision(400):
        true = arb(0.75).exp() * (arb(-1.25) + arb.pi() / 2 * orders[1]).sin()
        assert found.contains(true)
    # 5! / (1/8)^5 bounds what a derivative of one order more does over the radius
    assert found.rad() < (1e7 * radius if radius else 1e-30)


def test_all_numbers_of_a_ball_have_their_derivatives_inside() -> None:
    """Arguments that are known to twelve digits only."""
    with precision(120):
        found = INCOMPLETE["gammainc_slope"](arb(2.5, 1e-12), arb(1.5, 1e-12), n=1)
        for a in (2.5 - 1e-12, 2.5, 2.5 + 1e-12):
            for x in (1.5 - 1e-12, 1.5 + 1e-12):
                assert found.contains(INCOMPLETE["gammainc_slope"](arb(a), arb(x), n=1))
    assert found.rad() < 1e-6


@pytest.mark.parametrize(
    ("a", "x"), first(3, [(1000.0, 900.0), (0.01, 50.0), (50.0, 1e-3), (400.0, 402.0)])
)
def test_either_series_of_the_incomplete_gamma_function_serves(a: float, x: float) -> None:
    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -25
        below, above = (
            mpmath.gammainc(mpmath.mpf(a) + way * step, 0, x, regularized=True) for way in (-1, 1)
        )
        expected = float((above - below) / (2 * step))
    assert in_float64("gammainc_slope", a, x, n=1) == pytest.approx(expected, rel=1e-14)


def test_where_the_domain_ends_derivatives_by_a_parameter_are_0() -> None:
    assert in_float64("gammainc", 2.5, 0.0) == 0
    assert in_float64("gammaincc", 2.5, 0.0) == 1
    assert in_float64("gammainc_slope", 2.5, 0.0, n=1) == 0
    assert in_float64("betainc", 2.5, 1.5, 1.0) == 1
    assert in_float64("betainc_slope", 2.5, 1.5, 1.0, n=1, m=0) == 0
    assert in_float64("beta_density", 2.5, 1.5, 0.0, n=0, m=0) == 0


@pytest.mark.parametrize(
    ("row", "at"),
    [("gammainc", (-1.0, 2.0)), ("gammainc", (1.0, -2.0)), ("betainc", (1.0, 1.0, 1.5))],
)
def test_beyond_the_domain_there_is_no_value(row: str, at: tuple[float, ...]) -> None:
    assert math.isnan(in_float64(row, *at))


def test_what_would_take_seconds_is_refused() -> None:
    with pytest.raises(NotInBalls, match="gammainc_slope has no enclosure"):
        INCOMPLETE["gammainc_slope"](arb(1e5), arb(1e5), n=1)
    assert math.isnan(in_float64("gammainc_slope", 1e5, 1e5, n=1))

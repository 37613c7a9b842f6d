"""Smooth functions on balls: enclosures that shrink with the ball, and conventions at zeros."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb

from reference_engine.arithmetic.arbs import Undecided, objects, precision
from reference_engine.arithmetic.ball_choices import noting_ties
from reference_engine.arithmetic.ball_functions import FUNCTIONS

WIDE = np.array([arb(0, 0.5)], dtype=object)  # holds 0


def one(name: str, *xs: float, **keywords: Any) -> Any:
    return np.ravel(FUNCTIONS[name](*(objects([x]) for x in xs), **keywords))[0]


@pytest.mark.parametrize(
    ("name", "xs", "right"),
    [
        ("sigmoid", (-800.0,), lambda: mpmath.exp(-800) / (1 + mpmath.exp(-800))),
        ("softplus", (-800.0,), lambda: mpmath.log1p(mpmath.exp(-800))),
        ("logaddexp", (1000.0, 1.0), lambda: 1000 + mpmath.log1p(mpmath.exp(-999))),
        ("erfcx", (30.0,), lambda: mpmath.exp(900) * mpmath.erfc(30)),
        ("cbrt", (-8.0,), lambda: mpmath.mpf(-2)),
        ("hypot", (3e200, 4e200), lambda: mpmath.mpf(5e200)),
    ],
)
def test_far_out_no_digit_is_lost(name: str, xs: tuple[float, ...], right: Any) -> None:
    with precision(200), mpmath.workdps(80):
        found, expected = one(name, *xs), right()
        bound = float(mpmath.mpf(str(abs(expected)))) * 1e-25 + 1e-300
        assert float(found.rad()) <= bound
        assert abs(float(found.mid()) - float(expected)) <= 1e-14 * abs(float(expected))


@pytest.mark.parametrize(
    ("name", "xs"), [("xlogy", (0.0, 0.0)), ("xlog1py", (0.0, -1.0)), ("entr", (0.0,))]
)
def test_zero_times_the_logarithm_of_zero_is_zero(name: str, xs: tuple[float, ...]) -> None:
    assert one(name, *xs) == 0


@pytest.mark.parametrize("name", ["sqrt", "cbrt"])
def test_a_root_of_a_ball_around_zero_is_undecided_and_that_of_zero_is_zero(name: str) -> None:
    assert one(name, 0.0) == 0
    with pytest.raises(Undecided):
        FUNCTIONS[name](WIDE)


def test_a_length_of_zero_is_a_kink() -> None:
    with noting_ties() as ties:
        one("hypot", 3.0, 4.0)
        assert not ties
        one("hypot", 0.0, 0.0)
        assert ties


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "erf", "lgamma"])
def test_more_bits_make_the_ball_narrower(name: str) -> None:
    radii = []
    for bits in (60, 240):
        with precision(bits):
            radii.append(float(one(name, 1.3).rad()))
    assert radii[1] < radii[0] * 1e-30

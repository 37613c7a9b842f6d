"""Which outputs have kinks that steps along a direction cross, and which jump along an entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.truth.numerics.directions import Sampled
from gradcheck_cli.truth.numerics.pieces import crosses_kinks, jumps


def _sampled(gradient: Any, x: float, y: float) -> Sampled:
    def function(at: Any) -> Any:
        return np.array(gradient(float(at["x"][0]), float(at["y"][0])))

    values = {"x": np.array([x]), "y": np.array([y])}
    zero = function(values)
    return Sampled(function, values, {}, 0 * zero, zero, lambda _, value: 0 * value)


# Gradients by x and y, the point, and what each crosses along x and along y.
CROSSED = {
    "|x| y": (lambda x, y: (np.sign(x) * y, abs(x)), (0.0, 0.7), (True, True), (False, False)),
    "y^2 beside |x|": (
        lambda x, y: (np.sign(x), 2 * y),
        (0.0, 0.7),
        (False, False),  # a jump has one derivative on both sides
        (False, False),
    ),
    "max(x^2, y^2)": (
        lambda x, y: (2 * x * (abs(x) > abs(y)), 2 * y * (abs(y) > abs(x))),
        (0.0, 0.0),
        (True, True),
        (True, True),
    ),
    "|x^2|": (lambda x, y: (2 * x * np.sign(x * x), 0.0), (0.0, 0.7), (False, False), (False,) * 2),
    "a kink nearby": (
        lambda x, y: (max(x - 1e-3, 0.0), y),
        (0.0, 0.7),
        (False, False),
        (False, False),
    ),
    "rounding next to 0": (
        lambda x, y: ((x * np.cos(x) - np.sin(x)) / (x * x) if x else 0.0, y),
        (0.0, 0.7),
        (False, False),
        (False, False),
    ),
    "large": (
        lambda x, y: (1e30 * abs(x - 3e5), 1e30 * y * y),
        (3e5, 0.7),
        (True, False),
        (False, False),
    ),
}


@pytest.mark.parametrize("name", CROSSED)
def test_what_steps_cross(name: str) -> None:
    gradient, point, *expected = CROSSED[name]
    sampled = _sampled(gradient, *point)
    for along, crossed in zip("xy", expected, strict=True):
        found = crosses_kinks(sampled, {along: np.array([0.3])}, ["x", "y"], "float64")
        assert found.tolist() == list(crossed), along


def test_where_the_domain_ends_anything_is_crossed() -> None:
    sampled = _sampled(lambda x, y: (x**1.5 if x >= 0 else np.nan, y), 0.0, 0.7)
    assert crosses_kinks(sampled, {"x": np.ones(1)}, ["x", "y"], "float64").tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("size", [1.0, 1e-4])
def test_a_jump_that_long_steps_do_not_see(size: float) -> None:
    sampled = _sampled(lambda x, y: (np.sign(x) * size + 3 * x, abs(x) + y), 0.0, 0.7)
    assert jumps(sampled, "x", "float64").tolist() == [[True], [False]]
    assert not np.any(jumps(sampled, "y", "float64"))

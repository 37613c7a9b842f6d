"""Bounds beside a pole that cut a gradient off, and all those that do no harm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import truth_of

P = "clip(sigmoid(z), 1e-7, 1 - 1e-7)"
BCE = f"-sum(y * log({P}) + (1 - y) * log(1 - {P}))"


@pytest.mark.parametrize(
    ("formula", "inputs", "clip", "pole", "without"),
    [
        ("-log(clip(sigmoid(z), 1e-7, 1))", {"z": -30.0}, "clip(sigmoid(z), 1e-7, 1)", "log", [-1]),
        ("log(maximum(1e-8, x))", {"x": 2.0**-30}, "maximum(1e-8, x)", "log", [2.0**30]),
        ("3 / maximum(x, 1e-3)", {"x": 2.0**-12}, "maximum(x, 1e-3)", "divide", [-3 * 2.0**24]),
        # the element beyond its bound, and no other
        (
            "sum(sqrt(clip(x, 1e-4, 1)))",
            {"x": np.array([0.25, 2.0**-16])},
            "clip(x, 1e-4, 1)",
            "sqrt",
            [np.nan, 2.0**7],
        ),
        ("sum(log(1 - minimum(x, 1 - 1e-4)))", {"x": 1 - 2.0**-15}, None, "log", [-(2.0**15)]),
    ],
)
def test_a_gradient_that_is_cut_off(
    formula: str, inputs: dict[str, Any], clip: str | None, pole: str, without: list[float]
) -> None:
    (guard,) = truth_of(formula, inputs, modes=("reverse", "forward"), dtype="float32").guards
    assert guard.pole == pole
    assert clip is None or guard.text == clip
    (name,) = inputs
    for mode in ("reverse", "forward"):
        found = guard.without[mode, name].reshape(-1)
        np.testing.assert_allclose(found, without, rtol=1e-6)


@pytest.mark.parametrize(
    ("formula", "x"),
    [
        ("atanh(clip(x, -1 + 1e-6, 1 - 1e-6))", 1.0),
        ("log(maximum(x, 1e-7))", 0.0),
        ("1 / maximum(x, 1e-7)", 0.0),
        ("maximum(x, 1e-7) ** -0.5", 0.0),
        ("sum(log(1 - clip(x, 0, 1 - 1e-6)))", np.array([0.5, 1.0])),
    ],
)
def test_on_the_pole_itself_the_gradient_is_infinite_without_the_bound(
    formula: str, x: Any
) -> None:
    (guard,) = truth_of(formula, {"x": x}, modes=("reverse", "forward"), dtype="float32").guards
    for mode in ("reverse", "forward"):
        *others, last = guard.without[mode, "x"].reshape(-1)
        assert np.isinf(last)
        assert np.isnan(others).all()


def test_of_the_cross_entropy_only_the_wrong_ones_lose_their_gradient() -> None:
    inputs = {"z": np.array([-30.0, -30.0, 30.0, 2.0]), "y": np.array([1.0, 0.0, 1.0, 1.0])}
    (guard,) = truth_of(BCE, inputs, wrt=("z",)).guards
    lost = guard.without["reverse", "z"]
    np.testing.assert_array_equal(np.isnan(lost), [[False, True, True, True]])
    assert lost[0, 0] == pytest.approx(-1)


@pytest.mark.parametrize(
    ("formula", "x"),
    [
        ("relu(x) ** 2", -1.0),  # off
        ("maximum(0, 1 - x)", 3.0),  # a hinge
        ("exp(clip(x, -50, 50))", 100.0),  # no pole
        ("log(maximum(x, 0.1))", 0.05),  # a floor
        ("sqrt(maximum(x, 1e-7))", 0.0),  # a vertical tangent: the value is 0 without the bound
        ("maximum(x, 1e-7) ** 0.5", 0.0),
        ("acos(clip(x, -1 + 1e-6, 1 - 1e-6))", 1.0),
        ("log(maximum(x, 1e-7))", -1.0),  # beyond the domain
        ("sqrt(clip(x, 0, 1))", -1.0),
        ("log(clip(sigmoid(x), 1e-7, 1 - 1e-7))", 30.0),  # the other bound, at no pole
        ("log(clip(sigmoid(x), 1e-7, 1 - 1e-7))", -3.0),  # between the bounds
        ("x / maximum(sqrt(x * x), 1e-6)", 1e-8),  # the gradient is another, and not zero
    ],
)
def test_bounds_that_do_no_harm(formula: str, x: float) -> None:
    assert truth_of(formula, {"x": x}, dtype="float32").guards == ()

"""Smooth point, kink, jump or vertical tangent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.numerics.classify import Sides, classify
from gradcheck_cli.truth.numerics.differences import Line, climb

Function = Callable[[float], float]


def sides(function: Function, x: float, low: float = -np.inf, high: float = np.inf) -> Sides:
    def at(step: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array([function(x + step)])

    zero = at(0.0)
    # no noise is smaller than that of numbers of size 1 here
    noise = np.array([4 * 2.0**-53 * max(abs(zero[0]), 1e-3)])
    line = Line(
        lambda steps: np.stack([at(step) for step in steps]),
        zero,
        noise,
        abs(x) or 1.0,
        low - x,
        high - x,
        x,
    )
    return classify(climb(line)[0])


def relu(x: float) -> float:
    return max(x, 0.0)


ROUGH: list[tuple[str, Function, float, PointKind]] = [
    ("relu", relu, 0.0, PointKind.KINK),
    ("abs", abs, 0.0, PointKind.KINK),
    ("abs of a shifted argument", lambda x: abs(x - 3), 3.0, PointKind.KINK),
    ("leaky relu of slope 0.999", lambda x: x if x > 0 else 0.999 * x, 0.0, PointKind.KINK),
    ("exp(abs)", lambda x: np.exp(abs(x)), 0.0, PointKind.KINK),
    ("maximum of sin and cos", lambda x: max(np.sin(x), np.cos(x)), np.pi / 4, PointKind.KINK),
    ("sqrt", np.sqrt, 0.0, PointKind.UNDEFINED),
    ("cube root", np.cbrt, 0.0, PointKind.UNDEFINED),
    ("sqrt(abs)", lambda x: np.sqrt(abs(x)), 0.0, PointKind.UNDEFINED),
    ("x log x", lambda x: x * np.log(x) if x else 0.0, 0.0, PointKind.UNDEFINED),
    ("acos at 1", np.arccos, 1.0, PointKind.UNDEFINED),
    ("acos at -1", np.arccos, -1.0, PointKind.UNDEFINED),
    ("abs(x)^0.9", lambda x: abs(x) ** 0.9, 0.0, PointKind.UNDEFINED),
    ("step", lambda x: float(x >= 0), 0.0, PointKind.JUMP),
    ("floor", np.floor, 2.0, PointKind.JUMP),
    ("step over a slope", lambda x: x + float(x >= 1), 1.0, PointKind.JUMP),
    ("tiny step", lambda x: x + 1e-3 * (x > 0), 0.0, PointKind.JUMP),
]


@pytest.mark.parametrize("case", ROUGH, ids=[row[0] for row in ROUGH])
def test_rough_points_are_recognised(case: tuple) -> None:
    _, function, x, kind = case
    assert PointKind(int(sides(function, x).kind[0])) == kind


SMOOTH: list[tuple[str, Function, float]] = [
    ("abs(x)^1.5 at 0", lambda x: abs(x) ** 1.5, 0.0),
    ("abs(x)^3 at 0", lambda x: abs(x) ** 3, 0.0),
    ("x abs(x) at 0", lambda x: x * abs(x), 0.0),
    ("relu beside its kink", relu, 1e-3),
    ("relu on its other side", relu, -1e-9),
    ("abs of a difference beside its kink", lambda x: abs(x - 1), 1.05),
    ("exp", np.exp, 1.0),
    ("a cubic through 0", lambda x: x**3, 0.0),
    ("sqrt beside 0", np.sqrt, 1e-8),
    ("step beside its jump", lambda x: float(x >= 0), 1e-5),
    ("1/x", lambda x: 1 / x, 1e-6),
    ("tanh(100 x)", lambda x: np.tanh(100 * x), 0.0),
]


@pytest.mark.parametrize("case", SMOOTH, ids=[row[0] for row in SMOOTH])
def test_smooth_points_are_not_called_rough(case: tuple) -> None:
    _, function, x = case
    assert sides(function, x).kind[0] == PointKind.SMOOTH


@pytest.mark.parametrize("seed", [1200, 1549, 2810])
def test_bars_that_promise_too_much_make_no_kink(seed: int) -> None:
    """Sums of three slopes of gelu, found among 3000: seven steps are enough for the slope, and the
    one-sided bars hold less than they should."""
    rng = np.random.default_rng(seed)
    z, w, c = rng.normal(size=(3, 3))
    x = rng.normal()

    def slope(t: float) -> float:
        at = z + w * (t - x)
        return float(c @ (ndtr(at) + at * np.exp(-at * at / 2) / np.sqrt(2 * np.pi)))

    assert sides(slope, x).kind[0] == PointKind.SMOOTH


def test_one_sided_derivatives_of_a_kink() -> None:
    found = sides(lambda x: 3 * x if x > 0 else -2 * x, 0.0)
    assert found.above.value[0] == pytest.approx(3, abs=found.above.error[0])
    assert found.below.value[0] == pytest.approx(-2, abs=found.below.error[0])
    assert max(found.above.error[0], found.below.error[0]) < 1e-8


def test_vertical_tangents_keep_their_signs() -> None:
    up = sides(np.sqrt, 0.0)
    assert up.above.value[0] == np.inf
    down = sides(np.arccos, 1.0)
    assert down.below.value[0] == -np.inf


def test_forbidden_side_is_missing_rather_than_different() -> None:
    found = sides(np.exp, 1.0, low=1.0)
    assert found.kind[0] == PointKind.SMOOTH
    assert np.isinf(found.below.error[0])

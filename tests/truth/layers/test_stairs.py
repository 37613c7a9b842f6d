"""Values that rise in stairs, and values that only look like it."""

import math

import numpy as np
import pytest
import torch

import gradcheck_cli as g
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.truth.layers.stairs import stairs_along
from tests.checks.making import examined
from tests.every import first

W = 1e-6


def codes(layer, x, dtype, modes=("reverse",)):
    return {
        one.code
        for one in examined(layer, {"x": x}, dtype=dtype, modes=modes, blaming=False).findings
    }


@pytest.mark.parametrize("width", [1e-6, 1e-3])
def test_the_curve_that_stairs_follow_has_the_slope_that_is_meant(width):
    def several(many):
        return np.array([[width * np.floor(np.exp(float(one["x"])) / width)] for one in many])

    slope = stairs_along(several, {"x": np.array(0.7)}, "x", 0, width / 8, 0.5).slope
    assert abs(slope.value - np.exp(0.7)) <= slope.error < 0.2


def heights(function, reach=W / 2):
    def several(many):
        return np.array([[function(float(one["x"]))] for one in many])

    stairs = stairs_along(several, {"x": np.array(0.7)}, "x", 0, reach)
    return 0.0 if stairs is None else stairs.height


def sloped(x):
    """On every stair another line, as where the bracket of a search moves with its input."""
    step = np.floor(x / W)
    return W * step + (step % 7 - 3) / 5 * (x - W * step)


@pytest.mark.parametrize(
    "function",
    [lambda x: W * np.floor(x / W), sloped, lambda x: np.exp(x) + W * np.floor(x * x / W)],
)
def test_jumps_between_lines_are_stairs(function):
    assert W / 2 < heights(function) < 3 * W


@pytest.mark.parametrize("reach", [W / 100, W / 1e4, W / 1e6])
def test_stairs_are_seen_however_near_the_first_jump_is(reach):
    assert W / 2 < heights(sloped, reach) < 3 * W


@pytest.mark.parametrize("point", [[1e-3, 2e-4, 0.1], [2e-4, 0.1, 1.0], [3e-5, 1e-4, 7e-3]])
def test_a_difference_within_one_rounding_of_a_larger_number_is_no_truth(point):
    """Where 1 - cos(x) is one rounded number, dividing it by x falls."""

    class Quotient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.new_tensor([(1 - math.cos(one)) / one for one in x.tolist()])

        @staticmethod
        def backward(ctx, cotangent):
            (x,) = ctx.saved_tensors
            return cotangent * (torch.sin(x) / x - 2 * torch.sin(x / 2) ** 2 / x**2)

    x = torch.tensor(point, dtype=torch.float64)
    assert g.check(Quotient.apply, x, dtypes=["float64"], modes=["reverse"]).findings == ()


@pytest.mark.parametrize(
    "function",
    [
        np.sin,
        lambda x: x + W * np.sin(x / W),
        lambda x: x + abs((x / W) % 2 - 1) * W,  # continuous: its slope is meant
        lambda x: x + 1e3 * max(x - 0.7 - W, 0.0),
        lambda x: np.exp(1e6 * (x - 0.7)),
        lambda x: float(x > 0.7 + W),
        lambda x: 1.0,
    ],
)
def test_ripples_and_kinks_are_none(function):
    assert heights(function) == 0


def test_poles_are_none():
    assert heights(lambda x: W * np.tan(np.pi * x / W + 0.3), W / 8) == 0


def _search(x):
    low, high = torch.full_like(x, -4.0), torch.full_like(x, 4.0)
    for _ in range(22):
        middle = (low + high) / 2
        up = middle + middle**3 < x
        low, high = torch.where(up, middle, low), torch.where(up, high, middle)
    return (low + high) / 2


def _rounded(x):
    return torch.round(x * 2**16) / 2**16


@pytest.mark.parametrize("dtype", first(1, ["float64", "float32"]))
@pytest.mark.parametrize(("function", "found"), [(_search, {"GC101"}), (_rounded, set())])
def test_a_flat_stair_is_the_derivative_of_a_rounding_and_not_of_a_search(function, found, dtype):
    x = torch.linspace(-1.3, 0.9, 5)
    assert codes(lambda x: function(x) + 0 * x, x, dtype) == found


def test_a_straight_line_is_not_the_derivative_of_a_rounding():
    def layer(x):
        return x + (_rounded(x) - x).detach()

    assert codes(layer, [0.41371], "float32") == {"GC101"}


class Root(torch.autograd.Function):
    """t with t + t^3 = x, by bisection; its derivative is 1 / (1 + factor t^2) for 3."""

    @staticmethod
    def forward(ctx, x, factor):
        t = _search(x)
        ctx.save_for_backward(t)
        ctx.factor = factor
        return t

    @staticmethod
    def backward(ctx, cotangent):
        (t,) = ctx.saved_tensors
        return cotangent / (1 + ctx.factor * t**2), None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("factor", "found"), [(3, set()), (2, {"GC101"})])
def test_the_derivative_of_what_is_searched_for_is_judged_by_longer_steps(factor, found, dtype):
    assert codes(lambda x: Root.apply(x, factor), [0.4], dtype, FIRST_ORDER) == found


def _cube_root(x, steps):
    low, high = 0 * x, 0 * x + 4
    for _ in range(steps):
        middle = (low + high) / 2
        above = middle**3 > x
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return low


# stairs of the input's size, short ones, and those that show as a difference alone
@pytest.mark.parametrize(
    ("steps", "dtype"),
    first(2, [(8, "float64"), (10, "float32"), (14, "float32"), (23, "float64")]),
)
def test_no_number_of_steps_makes_the_flat_stairs_of_a_search_its_derivative(steps, dtype):
    assert codes(lambda x: _cube_root(x, steps), [2.0, 3.0], dtype) == {"GC101"}


def _bounces(x):
    """A ball that falls to a floor at 1, in 20 steps: as many choices in a row as a search has."""
    place, speed = x, torch.ones_like(x)
    for _ in range(20):
        place = place + 0.1 * speed
        hits = place > 1
        speed = torch.where(hits, -speed, speed - 0.05)
        place = torch.where(hits, 2 - place, place)
    return place


def _tents(x):
    for _ in range(16):
        x = torch.where(x.abs() < 0.5, 2 * x.abs(), 2 - 2 * x.abs())
    return x


def _saw(x):
    """Steep teeth, whose values lead nowhere."""
    for _ in range(9):
        x = 1 / (x - torch.floor(x) + 0.05)
    return x


def _wraps(x):
    for _ in range(12):
        x = 1.7 * x
        x = torch.where(x > np.pi, x - 2 * np.pi, x)
        x = torch.where(x < -np.pi, x + 2 * np.pi, x)
    return x


def _rounds(x):
    """Ten layers of numbers of few bits."""
    for _ in range(10):
        x = torch.round(x * 16 + 0.3) / 16 * 1.01
    return x


@pytest.mark.parametrize("layer", [_bounces, _tents, _saw, _wraps, _rounds])
def test_what_chooses_as_often_and_does_not_search_is_right(layer):
    point = torch.tensor([0.7, -0.31, 0.23])
    assert g.check(layer, point, dtypes=["float64"], modes=["reverse"]).passed

"""Thousands of entries: confirmed along a few directions, and the wrong one found by halving."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.bisect_directions import BUDGET, confirm
from gradcheck_cli.truth.blocks import Differences
from gradcheck_cli.truth.numerics.directions import Sampled

U = 2.0**-53


class Counted:
    """sum(w sin(x)) + product of y, the gradient known, its evaluations counted."""

    def __init__(self, n: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.w = rng.normal(size=n)
        self.values = {"x": rng.normal(size=n), "y": rng.uniform(1, 2, size=3)}
        self.evaluations = 0

    def __call__(self, v) -> np.ndarray:
        self.evaluations += 1
        return np.array([self.w @ np.sin(v["x"]) + np.prod(v["y"])])

    def gradient(self) -> dict[str, np.ndarray]:
        x, y = self.values["x"], self.values["y"]
        return {"x": (self.w * np.cos(x))[None], "y": (np.prod(y) / y)[None]}

    def confirm(self, gradient: dict[str, np.ndarray], seed: int = 0) -> dict[str, Differences]:
        zero = self(self.values)
        noise = np.array([8 * U * np.sum(np.abs(self.w))])
        sampled = Sampled(self, self.values, {}, noise, zero, lambda at, y: noise)
        differences = {name: Differences.empty(1, g.size) for name, g in gradient.items()}
        self.evaluations = 0
        confirm(gradient, differences, sampled.along_entry, sampled, seed)
        return differences


def test_right_gradient_of_thousands_takes_a_few_evaluations() -> None:
    function = Counted(5000)
    found = function.confirm(function.gradient())
    assert np.all(found["x"].vouched)
    assert np.all(found["y"].vouched)
    assert function.evaluations < 200


def test_bar_of_a_vouched_entry_is_what_it_would_have_shown() -> None:
    function = Counted(1000)
    right = function.gradient()
    found = function.confirm(right)
    for k in (0, 500, 999):
        wrong = {name: g.copy() for name, g in right.items()}
        wrong["x"][0, k] += 3 * found["x"].error[0, k]  # seen along one of two directions, or both
        assert not function.confirm(wrong)["x"].vouched[0, k]


def test_single_wrong_entry_is_found_and_only_it() -> None:
    function = Counted(3000)
    wrong = function.gradient()
    wrong["x"][0, 1234] *= 1.0001
    found = function.confirm(wrong)
    taken = np.isfinite(found["x"].value[0])
    assert taken[1234]
    assert np.sum(taken) <= 8  # the last leaf, and perhaps one beside it
    contradicted = np.abs(found["x"].value - wrong["x"]) > found["x"].error
    assert np.flatnonzero(contradicted & taken).tolist() == [1234]
    assert np.all(found["x"].vouched[0] | taken)
    assert np.all(found["y"].vouched)


def test_wrong_entry_of_a_small_input_is_not_drowned_by_a_large_one() -> None:
    function = Counted(2000)
    wrong = function.gradient()
    wrong["y"][0, 1] *= 1 + 1e-5
    found = function.confirm(wrong)
    assert np.isfinite(found["y"].value[0, 1])
    assert abs(found["y"].value[0, 1] - wrong["y"][0, 1]) > found["y"].error[0, 1]


def test_gradient_that_is_wrong_everywhere_stops_at_the_budget() -> None:
    function = Counted(4000)
    wrong = {name: g + 1.0 for name, g in function.gradient().items()}
    found = function.confirm(wrong)
    assert not np.any(found["x"].vouched)
    assert function.evaluations <= 84 * (BUDGET + 2)  # the whole ladder, both sides


def test_kink_under_one_entry_is_found() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(0.5, 1.5, size=600)
    x[77] = 0.0

    def function(v) -> np.ndarray:
        return np.array([np.sum(np.abs(v["x"]))])

    noise = np.array([1e-13])
    zero = function({"x": x})
    sampled = Sampled(function, {"x": x}, {}, noise, zero, lambda at, y: noise)
    gradient = {"x": np.sign(x)[None]}
    found = Differences.empty(1, x.size)
    confirm(gradient, {"x": found}, sampled.along_entry, sampled, 0)
    assert np.flatnonzero(found.kind[0] == PointKind.KINK).tolist() == [77]
    assert np.sum(found.vouched) >= 590


def test_same_seed_same_directions() -> None:
    function = Counted(1000)
    one, two = (function.confirm(function.gradient(), seed=5) for _ in range(2))
    np.testing.assert_array_equal(one["x"].error, two["x"].error)

"""What every check of behaviour compares by: how far runs may be apart, and where they are most."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.behaviour.baseline import Apart, Bench, Slope, farthest
from gradcheck_cli.checks.subjects import Subjects
from gradcheck_cli.engines.layer.subject import Call
from tests.checks.making import layer_problem, torch_engine


def bench(layer: object, **inputs: object) -> Bench:
    problem = layer_problem(layer, inputs)  # type: ignore[arg-type]
    subjects = Subjects(torch_engine(), problem)
    subject = subjects.bound("float64")
    return Bench(subject, lambda values: subjects.bound("float64", values), problem)


@pytest.mark.parametrize(
    ("other", "bar", "place"),
    [
        ([1.0, 2.0, 3.0], 0.0, None),
        ([1.1, 2.5, 3.2], 0.15, 1),
        ([1.1, 2.1, 3.1], 0.15, None),
        ([1.1, np.nan, 3.0], 0.15, 1),
        ([9.0, 9.0, 9.0], 3.5, None),  # as wide as the largest of them
    ],
)
def test_the_number_that_is_farthest_beyond_the_bar(
    other: list[float], bar: float, place: int | None
) -> None:
    assert farthest(np.array([1.0, 2.0, 3.0]), np.array(other), bar) == place


def test_what_was_no_number_before_is_not_compared() -> None:
    assert farthest(np.array([np.nan, 1.0]), np.array([1.0, 1.0]), 0.1) is None


def test_between_both_bars_a_slope_is_neither_excluded_nor_allowed() -> None:
    slope = Slope(1.0, 0.1)
    assert slope.allows(1.0)
    assert slope.excludes(9.0)
    assert not slope.allows(np.nan)
    assert not slope.excludes(np.nan)


def test_numbers_that_look_alike_are_told_apart() -> None:
    assert str(Apart("w", 1.0, 1.0 + 2**-40)).startswith("the gradient of `w` is 1")
    before, after = Apart(None, 1.0, 1.0 + 2**-40).two_numbers()
    assert before != after


def test_the_bars_are_as_wide_as_the_layer_is_steep() -> None:
    flat, steep = (bench(lambda x, k=k: torch.sin(k * x), x=[0.3, 0.7]) for k in (1.0, 1e4))
    assert steep.bars.gradients["x"] / 1e4 > 100 * flat.bars.gradients["x"]
    again = flat.run()
    assert flat.difference(flat.first, again) is None


def test_another_run_is_found_where_it_differs() -> None:
    made = bench(lambda x, y: x * x + y, x=[0.5, 1.5], y=[1.0, 2.0])
    there = made.run(Call(values={"x": np.array([0.5, 2.0])}))
    found = made.differ(made.first, there, ("x",))
    assert found is not None
    assert found.leaf is None  # the value comes first
    only = made.difference(made.first, there, ("y",))
    assert only is not None
    assert only.leaf is None

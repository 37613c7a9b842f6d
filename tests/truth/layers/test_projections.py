"""Products of a large gradient with random directions, against differences along them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.truth.layers.projections import Projections
from tests.checks.making import subject_of, torch_engine

X = np.linspace(0.2, 1.4, 50)


class Wrong(torch.autograd.Function):
    """sin; one entry of its gradient is off by a thousandth."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        slope = torch.cos(x)
        slope[7] *= 1.001
        return g * slope


def projections(layer: Any, **inputs: Any) -> Projections:
    subject = subject_of(torch_engine(), layer, **inputs)
    bounds = {leaf.name: (-np.inf, np.inf) for leaf in subject.leaves}
    return Projections(subject, subject.value({}), bounds, seed=3)


def test_the_product_of_the_gradient_is_that_of_its_entries() -> None:
    made = projections(torch.sin, x=X)
    gradient = made.pulled(made.rows[0])["x"]
    assert gradient is not None
    np.testing.assert_allclose(gradient, made.rows[0] * np.cos(X), rtol=1e-12)
    along = made.narrow_direction(0)
    assert made.product({"x": gradient}, along) == pytest.approx(float(gradient @ along["x"]))
    assert made.product_along({"x": gradient}, 0) == pytest.approx(float(gradient @ along["x"]))


@pytest.mark.parametrize(("layer", "right"), [(torch.sin, True), (Wrong, False)])
def test_a_right_product_is_confirmed_and_a_wrong_one_is_not(layer: Any, right: bool) -> None:
    made = projections(layer, x=X)
    expected = np.array([made.product_along(made.pulled(row), 0) for row in made.rows])
    found = made.confirmed(0, expected)
    assert found is not None
    agrees = np.abs(found.estimate.value - expected) <= found.estimate.error
    assert bool(np.all(agrees)) is right


def test_entries_that_are_left_out_do_not_move() -> None:
    made = projections(torch.sin, x=X)
    mask = np.zeros(X.size, np.bool_)
    mask[7] = True
    before = made.direction(0)["x"]
    made.exclude("x", mask)
    after = made.direction(0)["x"]
    assert before[7] != 0
    assert after[7] == 0
    assert np.array_equal(after[~mask], before[~mask])


def test_a_column_is_the_derivative_by_one_entry() -> None:
    made = projections(torch.sin, x=X)
    slope = made.column(made.leaves[0], 7, made.rows[:1])
    off = abs(slope.estimate.value.item() - float(made.rows[0, 7] * np.cos(X[7])))
    assert off <= slope.estimate.error.item() < 1e-6


def test_an_output_that_is_no_number_counts_for_nothing() -> None:
    made = projections(lambda x: torch.log(x - 0.2), x=X)
    assert made.output[0] == 0.0
    assert not np.any(made.rows[:, 0])
    assert np.any(made.rows[:, 1])

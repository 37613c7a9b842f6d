"""Sums and products on float balls: what cancels keeps its digits."""

from __future__ import annotations

import numpy as np
import pytest

from reference_engine.arithmetic.float_enclosures import FloatBall, exactly_floats
from reference_engine.traced import ROWS


@pytest.mark.parametrize("terms", [3, 70, 5000])
def test_a_product_of_matrices_that_cancels_keeps_its_digits(terms: int) -> None:
    rng = np.random.default_rng(terms)
    a, b = rng.standard_normal((4, terms)), rng.standard_normal((terms, 3))
    left = np.concatenate([a, -a, rng.standard_normal((4, 1)) * 1e-6], axis=1)
    right = np.concatenate([b, b, rng.standard_normal((1, 3))])
    found = ROWS["matmul"](exactly_floats(left), right)
    exact = left[:, -1:] @ right[-1:]
    assert np.all(np.abs(found.value - exact) <= found.radii + 1e-22)
    assert np.all(found.radii <= 1e-15 * np.max(np.abs(exact)) + 1e-20 * terms**2)


@pytest.mark.parametrize("terms", [3, 70, 5000])
def test_a_sum_that_cancels_keeps_its_digits(terms: int) -> None:
    x = np.random.default_rng(terms).standard_normal(terms)
    found = ROWS["sum"](exactly_floats(np.concatenate([x, [2.0**-30], -x])))
    assert abs(found.value - 2.0**-30) <= found.radii <= 1e-9 * 2.0**-30


def test_numbers_that_are_too_large_for_parts_are_held() -> None:
    large = np.array([1e300, 1.0, -1e300])
    found = ROWS["sum"](exactly_floats(large))
    assert abs(found.value - 1.0) <= found.radii
    product = ROWS["matmul"](exactly_floats(large[None]), np.array([[1.0], [1.0], [1.0]]))
    assert np.all(np.abs(product.value - 1.0) <= product.radii)


def test_the_radii_of_what_went_in_are_felt() -> None:
    x = FloatBall(np.ones((2, 3)), np.full((2, 3), 0.5))
    found = ROWS["matmul"](x, np.array([[1.0], [-2.0], [1.0]]))
    assert np.all(np.abs(found.value) <= 1e-12)
    assert np.all(found.radii >= 2.0)

"""Sorting, medians and the largest: ties, what is not a number, several results."""

import numpy as np
import pytest

from reference_engine import argsort, grad, jacobian, median, sort, sum, topk
from reference_engine.errors import ShapeError


def test_elements_that_are_equal_stay_in_their_order() -> None:
    x = np.array([2.0, 1.0, 2.0, 1.0])
    np.testing.assert_array_equal(argsort(x), [1, 3, 0, 2])
    np.testing.assert_array_equal(argsort(x, descending=True), [0, 2, 1, 3])
    np.testing.assert_array_equal(jacobian(sort)(x), np.eye(4)[[1, 3, 0, 2]])


def test_booleans_and_whole_numbers_sort_backwards_too() -> None:
    np.testing.assert_array_equal(sort(np.array([0, 3, 1], np.uint8), descending=True), [3, 1, 0])
    np.testing.assert_array_equal(sort(np.array([False, True]), descending=True), [True, False])


def test_the_largest_come_with_their_indices() -> None:
    x = np.array([[1.0, 5.0, 3.0], [2.0, 0.0, 2.0]])
    values, indices = topk(x, 2)
    np.testing.assert_array_equal(values, [[5, 3], [2, 2]])
    np.testing.assert_array_equal(indices, [[1, 2], [0, 2]])
    smallest, _ = topk(x, k=1, axis=0, largest=False)
    np.testing.assert_array_equal(smallest, [[1, 0, 2]])
    x_bar = grad(lambda x: sum(topk(x, 2)[0] * np.array([10.0, 1.0])))(x)
    np.testing.assert_array_equal(x_bar, [[0, 10, 1], [10, 0, 1]])


@pytest.mark.parametrize("k", [-1, 4])
def test_no_more_than_there_are(k: int) -> None:
    with pytest.raises(ShapeError, match="elements on an axis of size 3"):
        topk(np.ones(3), k)


def test_median_of_even_and_odd_numbers_of_elements() -> None:
    assert median(np.array([3.0, 1.0, 2.0])) == 2
    assert median(np.array([3.0, 1.0, 2.0, 10.0])) == 2.5
    np.testing.assert_array_equal(grad(median)(np.array([3.0, 1.0, 2.0, 10.0])), [0.5, 0, 0.5, 0])
    assert median(np.array([1.7e308, 1.7e308, 1.6e308, 1.7e308])) == 1.7e308
    assert median(np.array([1, 2])) == 1.5


def test_median_shares_ties() -> None:
    np.testing.assert_array_equal(grad(median)(np.full(4, 2.0)), np.full(4, 0.25))
    np.testing.assert_array_equal(grad(median)(np.array([2.0, 1.0, 2.0])), [0.5, 0, 0.5])
    # two elements swap places in the middle: their sum does not notice
    assert not median.at_kink(np.array([1.0, 2.0, 2.0, 3.0]))
    assert median.at_kink(np.array([2.0, 2.0, 3.0, 4.0]))


def test_median_of_something_that_is_not_a_number() -> None:
    assert np.isnan(median(np.array([1.0, np.nan, 2.0])))
    with pytest.raises(ShapeError, match="no elements"):
        median(np.array([]))

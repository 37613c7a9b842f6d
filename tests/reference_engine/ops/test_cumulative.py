"""Running sums, products and extremes where they are hard: zeros, ties, long arrays."""

import numpy as np
import pytest

from reference_engine import cummax, cummin, cumprod, cumsum, grad, hessian, jvp, sum
from reference_engine.errors import ShapeError
from reference_engine.floats import as_dtype


def test_cumprod_with_zeros_in_first_and_second_order() -> None:
    x = np.array([2.0, 0.0, 3.0, 0.0])
    np.testing.assert_array_equal(grad(lambda x: sum(cumprod(x)))(x), [1, 8, 0, 0])
    # x0 + x0 x1 + x0 x1 x2 + x0 x1 x2 x3
    expected = [[0, 4, 0, 0], [4, 0, 2, 6], [0, 2, 0, 0], [0, 6, 0, 0]]
    np.testing.assert_array_equal(hessian(lambda x: sum(cumprod(x)))(x), expected)


def test_what_overflows_on_one_side_of_a_zero_stays_there() -> None:
    x = np.array([0.0, 1e200, 1e200, 1e200])
    np.testing.assert_array_equal(jvp(cumprod, (x,), (np.eye(4)[1],))[1], np.zeros(4))
    x_bar = grad(lambda x: sum(cumprod(x)[:2]))(x)
    np.testing.assert_array_equal(x_bar, [1 + 1e200, 0, 0, 0])


def test_ties_of_running_extremes_are_shared() -> None:
    x = np.array([1.0, 2.0, 2.0, 0.0, 3.0])
    np.testing.assert_array_equal(grad(lambda x: sum(cummax(x)))(x), [1, 2, 1, 0, 1])
    np.testing.assert_array_equal(grad(lambda x: sum(cummin(-x)))(x), [-1, -2, -1, 0, -1])


def test_a_larger_element_does_not_give_its_rank_back() -> None:
    """2 comes again after 3: it attains nothing any more."""
    x = np.array([2.0, 3.0, 2.0])
    np.testing.assert_array_equal(grad(lambda x: sum(cummax(x)))(x), [1, 2, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_sums_are_rounded_once(dtype: str) -> None:
    """Adding up ones in the format itself stops at 256 or at 2048."""
    ones = np.ones(4096, as_dtype(dtype))
    assert cumsum(ones)[-1] == 4096
    assert grad(lambda x: sum(cumsum(x)))(ones)[0] == 4096


def test_an_axis_is_needed_unless_there_is_but_one() -> None:
    np.testing.assert_array_equal(cumsum(np.array([1.0, 2.0])), [1, 3])
    for row in (cumsum, cumprod, cummax):
        with pytest.raises(ShapeError, match="needs the axis"):
            row(np.ones((2, 2)))
        with pytest.raises(ShapeError, match="needs the axis"):
            row(np.float64(1.0))
        with pytest.raises(ShapeError, match="out of bounds"):
            row(np.ones(2), axis=1)

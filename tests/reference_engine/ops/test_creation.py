"""Arrays of constants: their dtypes, and what is refused."""

from typing import Any

import numpy as np
import pytest

from reference_engine import arange, eye, full, full_like, grad, ones, sum, zeros
from reference_engine.errors import ShapeError
from reference_engine.floats import as_dtype


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_the_dtype_that_is_asked_for(dtype: str) -> None:
    kind = as_dtype(dtype)
    arrays = (
        zeros(2, dtype=dtype),
        ones((), dtype=dtype),
        eye(2, dtype=dtype),
        arange(3, dtype=dtype),
        full(2, 3, dtype=dtype),
        full_like(np.zeros(2, kind), 3),
    )
    assert all(array.dtype == kind for array in arrays)


def test_without_one_numbers_are_float64_and_counts_are_whole() -> None:
    assert zeros((2, 3)).dtype == full(1, 2).dtype == eye(2).dtype == np.float64
    assert arange(3).dtype == np.int64


def test_they_are_constants_in_a_derivative() -> None:
    def f(x: Any) -> Any:
        return sum(x * arange(3) + full(3, 2.0) * x**2)

    np.testing.assert_array_equal(grad(f)(np.ones(3)), [4, 5, 6])


def test_arange_as_range() -> None:
    np.testing.assert_array_equal(arange(5, 0, -2), [5, 3, 1])
    np.testing.assert_array_equal(arange(3, 1), [])
    with pytest.raises(ShapeError, match="must not be zero"):
        arange(0, 3, 0)


def test_sizes_below_zero_are_refused() -> None:
    for call in (lambda: zeros(-1), lambda: full((2, -1), 1.0), lambda: eye(-1)):
        with pytest.raises(ShapeError, match="negative"):
            call()

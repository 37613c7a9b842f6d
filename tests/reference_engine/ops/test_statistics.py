"""Variance and deviation of numbers far from 0, of equal numbers, with corrections."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from reference_engine import grad, jvp, std, var
from reference_engine.floats import as_dtype

DEVIATIONS = np.array([3.0, -1.0, 0.0, 2.0, -5.0, 1.0])


def exact(x: Any) -> tuple[Fraction, list[Fraction]]:
    """The variance and the deviations from the mean of the numbers as they are."""
    numbers = [Fraction(float(n)) for n in x]
    mean = sum(numbers) / len(numbers)
    apart = [n - mean for n in numbers]
    return sum(d * d for d in apart) / len(numbers), apart


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3, 2.0**20 + 1])
def test_digits_are_kept_far_from_zero(offset: float, dtype: Any) -> None:
    x = (DEVIATIONS + offset).astype(dtype)
    variance, apart = exact(x)
    slopes = np.array([float(2 * d / len(x)) for d in apart])
    # The deviations cancel, but of numbers this close the differences are exact: what is left is
    # the rounding of the mean, which the second pass takes away, and a few roundings.
    unit = float(np.finfo(dtype).eps)
    assert var(x) == pytest.approx(float(variance), rel=8 * unit, abs=0)
    np.testing.assert_allclose(grad(var)(x), slopes, rtol=0, atol=8 * unit * np.max(np.abs(slopes)))
    deviation = float(variance) ** 0.5
    assert std(x) == pytest.approx(deviation, rel=8 * unit, abs=0)
    np.testing.assert_allclose(grad(std)(x), slopes / (2 * deviation), rtol=0, atol=8 * unit)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("value", [0.1, -3.7, 1e-4, 0.0])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_equal_numbers_deviate_by_nothing(value: float, count: int, dtype: str) -> None:
    x = np.full(count, value, as_dtype(dtype))
    assert var(x) == 0
    assert std(x) == 0
    np.testing.assert_array_equal(grad(var)(x), np.zeros(count))
    np.testing.assert_array_equal(grad(std)(x), np.zeros(count))
    assert jvp(std, (x,), (np.arange(count).astype(x.dtype),))[1] == 0


def test_the_correction_is_subtracted_from_the_count() -> None:
    x = np.array([1.0, 2.0, 4.0])
    assert var(x, correction=1) == pytest.approx(1.5 * var(x), rel=1e-15)
    with np.errstate(all="ignore"):
        assert np.isnan(var(np.array([1.0]), correction=1))
        assert var(x, correction=3) == np.inf
        assert var(x, correction=5) == np.inf
        assert std(x, correction=3) == np.inf


def test_huge_deviations() -> None:
    x = np.array([-1e200, 1e200, 0.0])
    assert std(x) == pytest.approx(1e200 * (2 / 3) ** 0.5, rel=1e-15)
    np.testing.assert_allclose(grad(std)(x), [-(6**-0.5), 6**-0.5, 0], rtol=1e-15, atol=1e-16)

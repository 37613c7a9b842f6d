"""Ranges with error bounds: what is read off them, and what an operation's result adds to them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures.enclosed import (
    Enclosed,
    Rounding,
    between,
    exact,
    literals,
    outward,
    rounded,
    unrounded,
)

FLOAT32 = FORMATS["float32"]
EAGER, LOOSE = (Rounding.of(FLOAT32, loose) for loose in (False, True))
NO = np.zeros(1, np.bool_)
NOTHING = np.zeros(1)


def result(rounding: Rounding, lo: float, hi: float, a: float = 0.0, gap: float = 0.0) -> Enclosed:
    ends = np.array([lo]), np.array([hi])
    return rounded(rounding, Enclosed(*ends, NOTHING, np.array([a]), NO, NO, gap=gap))


def test_sizes_of_a_range() -> None:
    x = between([-3.0, 1.0, -2.0], [2.0, 4.0, -1.0])
    np.testing.assert_array_equal(x.most, [3.0, 4.0, 2.0])
    np.testing.assert_array_equal(x.least, [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(x.error, 0.0)


def test_an_absolute_error_is_no_relative_one_where_the_number_may_be_0() -> None:
    lo, hi, d, a = np.array([[0.0, 2.0], [1.0, 3.0], [0.0, 0.25], [0.5, 0.5]])
    x = unrounded(lo, hi, d, a, NO, NO)
    np.testing.assert_allclose(x.relative, [np.inf, 0.5])
    np.testing.assert_allclose(x.error, [0.5, 0.25 * 3 + 0.5])
    np.testing.assert_array_equal(x.away, [0.0, 0.0])


def test_what_is_bad_has_no_bounds() -> None:
    x = unrounded(np.ones(1), 2 * np.ones(1), NOTHING, NOTHING, ~NO, NO)
    assert np.isinf(x.error)
    assert np.isinf(x.relative)


def test_a_range_holds_what_float64_rounds_away() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 200)) * 10.0 ** rng.integers(-300, 150, (2, 200))
    low, high = outward(x * y, x * y)
    for lo, hi, a, b in zip(low, high, x, y, strict=True):
        assert Fraction(lo) <= Fraction(a) * Fraction(b) <= Fraction(hi)
    low, high = outward(*np.array([[np.nan, np.inf], [np.nan, np.inf]]))
    assert np.all(low < np.inf)
    assert np.all(high == np.inf)


@pytest.mark.parametrize("rounding", [EAGER, LOOSE])
def test_a_result_that_may_overflow_is_bad_and_one_that_must_is_broken(rounding: Rounding) -> None:
    fits, may = (result(rounding, 1.0, hi) for hi in (3e38, 3.5e38))
    must = result(rounding, 1e39, 1e40)
    assert [bool(x.bad[0]) for x in (fits, may, must)] == [False, True, True]
    assert [bool(np.all(x.broken)) for x in (fits, may, must)] == [False, False, True]


def test_subnormal_results_are_rounded_by_one_engine_and_lost_by_another() -> None:
    for rounding, most in ((EAGER, 2.0**-149), (LOOSE, 2.0**-126)):
        below, above = result(rounding, 1e-40, 1e-39), result(rounding, 1e-30, 1.0)
        assert below.a[0] == pytest.approx(most)
        assert above.a[0] == 0.0
        assert above.d[0] == pytest.approx(2.0**-24)


def test_a_number_that_is_0_or_has_a_size_is_not_flushed() -> None:
    """Differences of numbers of a dtype: where they are not 0, they are as large as an ulp."""
    assert result(LOOSE, -1.0, 1.0).a[0] > 0
    apart = result(LOOSE, -1.0, 1.0, gap=2.0**-100)
    assert apart.a[0] == 0.0 < apart.away[0] < 2.0**-100
    near = result(LOOSE, -1.0, 1.0, gap=2.0**-130)
    assert near.a[0] > 0 == near.away[0]
    assert result(LOOSE, -1.0, 1.0, 2.0**-130, gap=2.0**-100).away[0] == 0


def test_literals_that_the_dtype_does_not_hold_are_rounded() -> None:
    held = literals(EAGER, [0.5, 3.0, 0.0])
    np.testing.assert_array_equal(held.error, 0.0)
    tenth = literals(EAGER, [0.1])
    assert tenth.lo[0] < 0.1 < tenth.hi[0]
    assert abs(np.float64(np.float32(0.1)) - 0.1) <= tenth.error[0]
    assert literals(EAGER, [1e39]).bad[0]


def test_numbers_as_they_are() -> None:
    x = exact([1.5, -2.0])
    np.testing.assert_array_equal(x.lo, x.hi)
    np.testing.assert_array_equal(x.unless_0.a, 0.0)
    moved = x.map(lambda part: part[::-1])
    np.testing.assert_array_equal(moved.lo, [-2.0, 1.5])


def test_a_number_is_off_by_ulps_of_the_power_of_two_below_it() -> None:
    """Never by more than its nearest number is, and by half as much above 2^k as below."""
    rounding = Rounding.of(FORMATS["float32"], False)
    rng = np.random.default_rng(0)
    numbers = rng.choice([-1, 1], 4000) * np.exp2(rng.uniform(-20, 20, 4000))
    numbers[:80] = np.exp2(np.arange(-40, 40)) * (1 + rng.choice([-1, 1], 80) * 2.0**-26)
    found = rounded(rounding, exact(numbers), in_ulps=True)
    assert np.all(np.abs(numbers.astype(np.float32) - numbers) <= found.error)
    above, below = rounded(rounding, exact([1.9999, 1.0001]), in_ulps=True).error / rounding.unit
    assert above < 1.001 > below
    assert np.all(found.error <= rounded(rounding, exact(numbers)).error)
    wide = rounded(rounding, between([1.5, -1.0], [3.0, 1.0]), in_ulps=True)
    assert wide.error[0] >= 2 * rounding.unit
    assert wide.error[1] >= rounding.unit

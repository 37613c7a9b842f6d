"""Special functions at their ends, and what their numerics promise."""

import numpy as np
import pytest

from reference_engine.arithmetic import special

UNIT = 2.0**-53


def test_betaln_of_the_largest_numbers_does_not_overflow() -> None:
    found = float(special.betaln(np.asarray(1e308), np.asarray(1e308)))
    assert found == pytest.approx(-2 * (np.log(2) * 1e308), rel=1e-15)


@pytest.mark.parametrize("n", [-1, 0.5])
def test_polygamma_has_whole_orders_from_0_on(n: float) -> None:
    with pytest.raises(ValueError, match="whole number"):
        special.polygamma(np.ones(2), n=n)


@pytest.mark.parametrize(
    ("n", "x", "expected"),
    [(1, 0.0, np.inf), (2, 0.0, -np.inf), (2, -0.0, np.inf), (1, -3.0, np.inf), (2, -3.0, np.nan)],
)
def test_polygamma_at_its_poles(n: int, x: float, expected: float) -> None:
    """Infinite where both sides agree, or where the sign of the zero tells the side."""
    np.testing.assert_equal(float(special.polygamma(np.asarray(x), n=n)), expected)


@pytest.mark.parametrize("x", [0.0, 1.999, 2.0, 2.001, 30.0])
def test_ratios_of_repeated_integrals_fulfil_their_recurrence(x: float) -> None:
    """w_(k-1) = 2x w_k + 2(k+1) w_(k+1), on both sides of where the formula changes."""
    w = special.ierfc_ratios(np.asarray(x), 5)
    for k in range(1, 5):
        assert 2 * x * w[k] + 2 * (k + 1) * w[k + 1] == pytest.approx(w[k - 1], rel=32 * UNIT)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_values_are_rounded_once(dtype: type) -> None:
    x = np.linspace(0.1, 0.9, 9, dtype=dtype)
    for function in (special.lgamma, special.logit, special.ndtri_slope, special.normal_excess):
        exact = function(x.astype(np.float64))
        np.testing.assert_array_equal(function(x), exact.astype(dtype))

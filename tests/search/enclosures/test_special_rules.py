"""What engines do to special functions beyond a library's ulps (the sweep is in test_rules)."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.special

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures import special_rules  # noqa: F401 - it fills the table of rules
from gradcheck_cli.search.enclosures.enclosed import Exceeds, Rounding, between, exact
from gradcheck_cli.search.enclosures.rules import RULES

FLOAT32 = Rounding.of(FORMATS["float32"], False)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_is_known_above_its_pole(name: str) -> None:
    found = RULES[name](FLOAT32, between([0.5, -0.5], [3.0, 0.5]))
    assert (found.bad.tolist(), found.undefined.tolist()) == ([False, True], [False, True])


def test_in_half_precision_erf_has_lost_its_digits_near_0() -> None:
    half = Rounding.of(FORMATS["float16"], False)
    error = [RULES["erf"](one, exact([1e-4])).error[0] for one in (FLOAT32, half)]
    assert error[0] < 1e-9 < 1e-7 < error[1]


def test_gelu_has_no_digits_in_its_left_tail() -> None:
    found = RULES["gelu"](FLOAT32, exact([-10.0]))
    assert found.error[0] > np.abs(found.lo[0])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_polygamma_falls_in_size_from_its_pole(order: int) -> None:
    found = RULES["polygamma"](FLOAT32, between([1.0, -2.0], [2.0, -1.0]), n=order)
    ends = sorted(float(scipy.special.polygamma(order, x)) for x in (1.0, 2.0))
    np.testing.assert_allclose([found.lo[0], found.hi[0]], ends, rtol=1e-12)
    assert found.bad.tolist() == [False, True]


def test_polygamma_of_an_order_whose_factorial_overflows_has_no_rule() -> None:
    """35! is infinite in float32, and zeta(36, 30.7) times it is not."""
    assert not RULES["polygamma"](FLOAT32, exact([30.7]), n=33).bad.any()
    with pytest.raises(Exceeds, match="order 35"):
        RULES["polygamma"](FLOAT32, exact([30.7]), n=35)


def test_lgamma_overflows_before_its_result_does() -> None:
    found = RULES["lgamma"](FLOAT32, exact([4.05e36]))
    assert found.hi[0] < np.finfo(np.float32).max
    assert found.bad[0]


def test_the_slope_of_a_logit_outside_of_its_domain_is_nothing() -> None:
    ends = (np.array([-2.0, 0.3, 0.9]), np.array([-1.0, 0.4, 1.1]))
    found = RULES["logit_slope"](FLOAT32, between(*ends))
    assert found.bad.tolist() == found.undefined.tolist() == [True, False, True]


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_what_was_measured_of_gamma_counts_once(name: str) -> None:
    """As a part of 1, or of a larger number; elsewhere, by what a library is assumed to do."""
    plain = Rounding.of(FORMATS["float32"], True)
    measured = replace(plain, pieces=((0.5, 100.0, 5 * plain.unit),))
    x = exact([1.9, 1.2, 90.0, 0.4, 101.0])
    size = np.maximum(np.abs(scipy.special.gammaln(x.lo)), 1)
    if name == "digamma":
        size = np.maximum(np.abs(scipy.special.psi(x.lo)), 1)
    found, other = (RULES[name](rounding, x) for rounding in (measured, plain))
    parts = found.error / (size * plain.unit)
    assert np.all((parts[:3] > 4.99) & (parts[:3] < 5.01))
    np.testing.assert_array_equal(found.error[3:], other.error[3:])

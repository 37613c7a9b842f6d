"""What engines do to special functions beyond a library's ulps (the sweep is in test_rules)."""

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search import special_rules  # noqa: F401 - it fills the table of rules
from gradcheck_cli.search.enclosed import Exceeds, Rounding, between, exact
from gradcheck_cli.search.rules import RULES

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


def test_orders_of_polygamma_without_a_rule_are_named() -> None:
    with pytest.raises(Exceeds, match="order 2"):
        RULES["polygamma"](FLOAT32, exact([1.0]), n=2)

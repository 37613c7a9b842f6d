"""Matrices that are singular, or nearly so, and of too many rows (the sweep is in
test_every_rule)."""

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures.enclosed import Exceeds, Rounding, between, exact
from gradcheck_cli.search.enclosures.enclosing import RULES

FLOAT32 = Rounding.of(FORMATS["float32"], False)
REGULAR = np.array([[[2.0, 1.0], [1.0, 3.0]]])
ALL_TO = np.array([[[2.0, 1.0], [7.0, 3.0]]])  # the determinant is 5 down to -1


def test_the_bound_of_a_determinant_holds_what_elimination_gives() -> None:
    found = RULES["det"](FLOAT32, exact(REGULAR))
    assert found.lo[0] <= 5 <= found.hi[0]
    computed = np.linalg.det(REGULAR[0].astype(np.float32))
    assert abs(float(computed) - 5) <= found.error[0] < 1e-4


@pytest.mark.parametrize("name", ["inv", "slogdet_logabs", "logdet"])
def test_where_a_matrix_between_is_singular_nothing_is_known(name: str) -> None:
    assert np.all(RULES[name](FLOAT32, between(REGULAR, ALL_TO)).bad)
    assert not np.any(RULES[name](FLOAT32, between(REGULAR, REGULAR * 1.01)).bad)


def test_a_determinant_has_no_pole() -> None:
    found = RULES["det"](FLOAT32, between(REGULAR, ALL_TO))
    assert not np.any(found.bad)
    assert found.lo[0] <= -1
    assert found.hi[0] >= 5


def test_the_logarithm_of_a_negative_determinant_is_undefined() -> None:
    negative = exact(REGULAR[:, ::-1])
    assert RULES["logdet"](FLOAT32, negative).undefined[0]
    sign = RULES["slogdet_sign"](FLOAT32, negative)
    assert (sign.lo[0], sign.hi[0], sign.error[0]) == (-1, -1, 0)
    assert not RULES["slogdet_logabs"](FLOAT32, negative).undefined[0]


def test_a_matrix_of_four_rows_has_no_rule() -> None:
    with pytest.raises(Exceeds):
        RULES["det"](FLOAT32, exact(np.eye(4)[None]))

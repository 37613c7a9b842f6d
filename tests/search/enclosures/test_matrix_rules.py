"""Matrices that are singular, or nearly so, and of too many rows (the sweep is in
test_every_rule)."""

import numpy as np
import pytest
import scipy.linalg

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures.enclosed import Exceeds, Rounding, between, exact
from gradcheck_cli.search.enclosures.enclosing import RULES
from gradcheck_cli.search.enclosures.matrix_rules import _factor_sizes
from reference_engine.arithmetic.arbs import precision
from reference_engine.arithmetic.balls import exactly
from reference_engine.traced import ROWS

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


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("width", [0.0, 1e-3, 0.3])
def test_factors_and_results_in_float32_stay_within_their_bounds(count: int, width: float) -> None:
    """Of matrices with elements of all sizes, in whatever order rows are pivots."""
    rng = np.random.default_rng([count, int(1e3 * width)])
    shape = (400, count, count)
    sizes = 10 ** rng.uniform(-6, 1, shape) * (rng.random(shape) < 0.9)
    low = (rng.choice((-1, 1), shape) * sizes).astype(np.float32)
    place = rng.permuted(np.broadcast_to(np.arange(count), shape[:2]), axis=1)
    np.put_along_axis(low, place[..., None], rng.uniform(20, 40, (400, count, 1)), axis=2)
    high = low + np.float32(width) * np.abs(low)
    lo, hi = low.astype(np.float64), high.astype(np.float64)
    off = np.full(shape, 1e-4)
    known = _factor_sizes(lo - off, hi + off)
    assert np.mean(np.isfinite(known)) > 0.5
    found = RULES["inv"](FLOAT32, between(lo, hi))
    points = np.clip(np.float32(lo + rng.random(shape) * (hi - lo)), low, high)
    for at, inside, inverse, error in zip(points, known, found.lo, found.error, strict=True):
        factors, pivots = scipy.linalg.lu_factor(at)
        left = np.abs(np.tril(factors, -1)) + np.eye(count)
        whole = left @ np.abs(np.triu(factors))
        for k, other in reversed(list(enumerate(pivots))):
            whole[[k, other]] = whole[[other, k]]
        assert np.all(whole <= inside * (1 + 1e-5))
        with precision(300):
            exact_inverse = np.asarray((ROWS["inv"](exactly(at.astype(np.float64)))).value)
        true = np.vectorize(float)(exact_inverse)
        computed = scipy.linalg.lu_solve((factors, pivots), np.eye(count, dtype=np.float32))
        assert np.all(np.abs(computed - true) <= error * (1 + 1e-12))
        assert np.all(true >= inverse - 1e-12 * np.abs(true))


def test_an_element_of_an_inverse_that_is_almost_0_has_almost_no_error() -> None:
    found = RULES["inv"](FLOAT32, exact(np.array([[[4.0, 1e-6], [1.0, 4.0]]])))
    assert found.error[0, 0, 1] < 1e-5 * 1e-6

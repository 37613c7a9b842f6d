"""Samples that follow from a row."""

import mpmath
import numpy as np
import pytest

from reference_engine.op import TABLE, Op
from tests.reference_engine.samples.following import AWAY, draw_of, exact_of, follows


def drawn(name: str) -> np.ndarray:
    return draw_of(TABLE[name])(np.random.default_rng(1), (200,))


def test_numbers_lie_in_the_domain_and_away_from_its_points() -> None:
    assert drawn("exp").min() < -1.9
    assert drawn("log").min() >= AWAY
    assert np.abs(drawn("relu6")).min() >= AWAY


def test_a_row_without_numbers_nearby_needs_samples_of_its_own() -> None:
    far = Op("far", lambda x: np.log(x - 5), None, family="exponential")
    with pytest.raises(AssertionError, match="far needs samples of its own"):
        draw_of(far)(np.random.default_rng(1), (3,))


def test_the_exact_value_is_that_of_the_symbolic_engine() -> None:
    exact = exact_of(TABLE["relu6"])
    assert [exact.function(mpmath.mpf(x)) for x in (-1, 4, 7)] == [0, 4, 6]
    assert [exact.domain(x) for x in (0.0, 6.0, 3.0)] == [False, False, True]
    assert [exact_of(TABLE["log"]).domain(x) for x in (-1.0, 0.0, 1.0)] == [False, False, True]


def test_rows_of_several_arrays_or_of_required_keywords_state_theirs() -> None:
    assert follows(TABLE["exp"])
    assert not any(follows(TABLE[name]) for name in ("hypot", "polygamma", "sum", "floor"))

"""Elementwise rows on float balls where they have no number."""

from __future__ import annotations

import numpy as np

from reference_engine.arithmetic.float_enclosures import FloatBall, exactly_floats
from reference_engine.traced import ROWS


def test_a_quotient_by_a_ball_that_holds_0_holds_anything() -> None:
    with np.errstate(all="ignore"):
        found = 1.0 / FloatBall(np.array([0.1, 1.0]), np.array([0.2, 0.2]))
    assert not np.isfinite(found.radii[0])
    assert found.bounds[0][1] <= 1 / 1.2 < 1 / 0.8 <= found.bounds[1][1]


def test_what_overflows_is_no_number_and_not_held() -> None:
    with np.errstate(all="ignore"):
        found = ROWS["exp"](exactly_floats(np.array([0.0, 1000.0])))
    assert found.radii[0] < 1e-14
    assert not np.isfinite(found.radii[1])


def test_a_score_of_minus_infinity_has_an_exponential_of_0() -> None:
    with np.errstate(all="ignore"):
        scores = exactly_floats([0.0, -np.inf]) - FloatBall(np.array([1.0]), np.array([1e-9]))
        found = ROWS["exp"](scores)
    assert np.all(np.isfinite(found.radii))
    assert (found.value[1], found.radii[1] < 1e-200) == (0.0, True)

"""What a narrow dtype may lose of the entries of a product."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.certified.rounding import MANY, Errors, Rounding
from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.large_arrays import PART
from gradcheck_cli.domain.layer import Leaf

FMT = FORMATS["float32"]
UNIT = FMT.unit_roundoff
RIGHT = np.full(PART + 5, 1.5)


def errors(off: float) -> Errors:
    """One entry of the last part is off."""
    mine = RIGHT.copy()
    mine[-1] += off
    return Errors(mine, RIGHT, FMT)


def test_few_ulps_are_no_error() -> None:
    found = errors(4 * UNIT)
    assert (found.largest, found.count) == (2.0, 0)
    assert np.all(found.are_explained_by(np.zeros(1)))


def test_an_error_is_compared_with_the_cost_of_its_entry() -> None:
    found = errors(20 * UNIT)
    assert (found.largest, found.count) == (10.0, 1)
    assert not np.all(found.are_explained_by(np.zeros(1)))
    assert np.all(found.are_explained_by(np.full(1, UNIT)))
    assert np.all(found.are_explained_by(np.full(found.count, UNIT)))


def test_half_of_the_digits_are_no_rounding() -> None:
    assert not np.all(errors(2.0**-10).are_explained_by(np.full(1, np.inf)))


def test_an_entry_without_a_number_is_not_explained() -> None:
    found = errors(np.nan)
    assert found.count == 1
    assert not np.all(found.are_explained_by(np.full(1, np.inf)))


def test_an_entry_that_cancels_is_compared_with_the_others() -> None:
    right = RIGHT.copy()
    right[0] = 1e-12
    mine = right.copy()
    mine[0] += 2 * UNIT
    assert Errors(mine, right, FMT).count == 0


@pytest.mark.parametrize(
    ("spread", "worst", "explained"), [(5, 30, True), (5, 90, False), (40, 90, False)]
)
def test_a_spread_that_rounding_explains_explains_the_largest_of_many_errors(
    spread: float, worst: float, explained: bool
) -> None:
    """One error far beyond all others is no rounding, nor is a wide spread (in unit roundoffs)."""
    leaf = Leaf("w", "parameter", np.ones(MANY), True)
    truth: Any = SimpleNamespace(leaves=[leaf])
    problem: Any = SimpleNamespace(dtype="float32")
    right = np.full(MANY, 1.0)
    mine = right + UNIT * spread * signs(np.random.default_rng(0), MANY)
    mine[7] = 1 + UNIT * worst
    found = Errors(mine, right, FMT)
    left = Rounding(problem, problem, truth)._unexplained_by_usual({"w": found})
    assert (not left) == explained

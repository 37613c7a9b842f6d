"""What a narrow dtype may lose of the entries of a product."""

import numpy as np

from gradcheck_cli.checks.certified.rounding import Errors
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.truth.numerics.probes import PART

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
    assert found.within(np.zeros(1))


def test_an_error_is_compared_with_the_cost_of_its_entry() -> None:
    found = errors(20 * UNIT)
    assert (found.largest, found.count) == (10.0, 1)
    assert not found.within(np.zeros(1))
    assert found.within(np.full(1, UNIT))
    assert found.within(np.full(found.count, UNIT))


def test_half_of_the_digits_are_no_rounding() -> None:
    assert not errors(2.0**-10).within(np.full(1, np.inf))


def test_an_entry_without_a_number_is_not_explained() -> None:
    found = errors(np.nan)
    assert found.count == 1
    assert not found.within(np.full(1, np.inf))


def test_an_entry_that_cancels_is_compared_with_the_others() -> None:
    right = RIGHT.copy()
    right[0] = 1e-12
    mine = right.copy()
    mine[0] += 2 * UNIT
    assert Errors(mine, right, FMT).count == 0

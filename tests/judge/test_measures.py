"""What is measured of entries: in ulps, in digits, beside other entries and in other precisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.spec import Tolerance
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.measures import (
    Again,
    accepted,
    error_in_ulps,
    grows_with_precision,
    is_hidden,
    legitimately_flushed,
    loses_little,
    lossy,
    repeats_in,
    surely_tolerated,
)

from .making import block, rows

FLOAT32, FLOAT64 = FORMATS["float32"], FORMATS["float64"]
ULP = 2.0**-23  # of 1 in float32


def certified(*values: float) -> TruthBlock:
    made = block([list(values)])
    return replace(made, certified=np.ones(made.value.shape, np.bool_))


def test_an_error_is_counted_in_ulps_of_the_truth() -> None:
    truth = rows([1.0, 2.0, np.inf, 1e300])
    computed = rows([1 + 3 * ULP, 2 + 3 * ULP, np.inf, np.inf])
    assert error_in_ulps(computed, truth, FLOAT32).tolist() == [[3, 1.5, 0, 0]]


def test_a_number_at_a_kink_may_lie_between_the_slopes_and_nowhere_else() -> None:
    at_kink = block([[0.0] * 4], kind=PointKind.KINK, between=([-1.0] * 4, [1.0] * 4))
    computed = rows([-1.0, 0.3, 1.2, np.nan])
    assert accepted(computed, at_kink, FLOAT32, None).tolist() == [[True, True, False, False]]


def test_any_finite_number_may_stand_where_there_is_no_derivative() -> None:
    nowhere = block([[0.0, 0.0]], kind=PointKind.UNDEFINED)
    assert accepted(rows([7.0, np.inf]), nowhere, FLOAT32, None).tolist() == [[True, False]]


def test_below_the_smallest_normal_number_zero_is_right() -> None:
    tiny = FLOAT32.smallest_normal
    computed, truth = rows([0.0, 0.0, tiny]), rows([tiny / 2, tiny, tiny / 2])
    assert legitimately_flushed(computed, truth, FLOAT32).tolist() == [[True, False, True]]


def test_a_tolerance_holds_wherever_in_its_bar_the_truth_is() -> None:
    tolerance = Tolerance(rtol={"float32": 1e-3})
    wide = block([[1.0, 1.0]], error=[[0.0, 1e-3]])
    computed = rows([1.0009, 1.0009])
    assert surely_tolerated(computed, wide, FLOAT32, tolerance).tolist() == [[True, False]]
    assert not np.any(surely_tolerated(computed, wide, FLOAT64, tolerance))


def test_digits_are_lost_where_more_than_the_part_of_them_is() -> None:
    assert lossy(rows([2.0**5, 2.0**7]), FLOAT32, 0.25).tolist() == [[False, True]]


def test_an_error_hides_beside_the_largest_entry_of_its_row_or_column() -> None:
    truth = block([[1e9, 1.0], [1.0, 1.0]])
    off = truth.value + 1.0
    assert is_hidden(off, truth, FLOAT32).tolist() == [[True, True], [True, False]]


def test_a_zero_hides_only_beside_its_row_and_its_column() -> None:
    gradient = block([[1e9, 1.0]])  # of a scalar: alone in its column
    assert is_hidden(rows([1e9, 0.0]), gradient, FLOAT32).tolist() == [[True, False]]


def test_the_same_wrong_number_in_two_precisions_is_no_rounding() -> None:
    truth = certified(1.0, 1.0, 1.0)
    again = Again(rows([1.5, 1.0, np.nan]), FLOAT64)
    assert repeats_in(rows([1.5, 1.5, 1.5]), truth, again).tolist() == [[True, False, False]]


@pytest.mark.parametrize(
    ("single", "double", "floor", "grows"),
    [
        (691.0, 3.6e8, 0.0, True),
        (4.0, 2.0 + 1e-7, 0.0, False),  # rounding: the error shrinks
        (691.0, 700.0, 0.0, False),  # noise in both
        (0.0, 3.6e8, 0.0, False),  # absorbed in float32
        (691.0, 3.6e8, 1e17, False),  # divided by what rounding leaves
        (2.0, 2.0 + 1e-3, 0.0, False),  # exact in float32 by chance
        (691.0, np.inf, 0.0, False),
    ],
)
def test_an_error_that_grows_with_the_precision_is_no_rounding(
    single: float, double: float, floor: float, grows: bool
) -> None:
    """`floor` is what rounding each operation to float32 may cost."""
    truth = block([[2.0]], floor=[[floor]])
    mine, other = rows([single]), rows([double])
    assert grows_with_precision(mine, truth, Again(other, FLOAT64), FLOAT32)[0, 0] == grows
    finer = replace(truth, floor=truth.floor * 2.0**-29)
    assert grows_with_precision(other, finer, Again(mine, FLOAT32), FLOAT64)[0, 0] == grows


def test_a_precision_says_nothing_of_what_it_cannot_hold() -> None:
    half = Again(rows([0.0]), FORMATS["float16"])
    assert not half.speaks_of(rows([0.0]), rows([1e-9]))[0, 0]
    assert half.speaks_of(rows([0.0]), rows([1e-2]))[0, 0]


@pytest.mark.parametrize(
    ("computed", "little"),
    [
        (1 + 2.0**-19, True),  # 4 of 24 bits
        (1 + 2.0**-10, False),  # 13 of them
        (0.0, False),
        (np.nan, False),
    ],
)
def test_little_is_lost_below_a_quarter_of_the_digits(computed: float, little: bool) -> None:
    other = Again(rows([1.0]), FLOAT64)
    assert loses_little(rows([computed]), certified(1.0), other, FLOAT32, None)[0, 0] == little


def test_without_another_precision_an_error_that_float32_holds_may_be_the_same_there() -> None:
    held, finer = rows([1 + 2.0**-20]), rows([1 + 2.0**-50 * 3])
    assert not loses_little(held, certified(1.0), None, FLOAT32, None)[0, 0]
    assert loses_little(finer, certified(1.0), None, FLOAT64, None)[0, 0]


def test_with_a_tolerance_of_the_user_nothing_is_little() -> None:
    tolerance = Tolerance(ulps={"": 1})
    other = Again(rows([1.0]), FLOAT64)
    computed = rows([1 + 2.0**-19])
    assert not loses_little(computed, certified(1.0), other, FLOAT32, tolerance)[0, 0]


def test_the_same_arrays_are_measured_once() -> None:
    truth, computed = certified(1.0, 2.0), rows([1.0 + ULP, 2.0])
    first = accepted(computed, truth, FLOAT32, None)
    assert accepted(computed, truth, FLOAT32, None) is first
    assert not first.flags.writeable  # whoever looks reads the same
    assert accepted(computed.copy(), truth, FLOAT32, None) is not first
    assert accepted(computed, truth, FLOAT64, None).tolist() == [[False, True]]
    assert accepted(computed, truth, FLOAT32, Tolerance(ulps={"": 0.5})).tolist() == [[False, True]]


def test_arrays_that_are_gone_leave_nothing_behind() -> None:
    for number in range(200):
        computed = rows([1.0 + number * ULP])
        assert error_in_ulps(computed, rows([1.0]), FLOAT32).tolist() == [[number]]

"""A subject's derivatives, weighed with differences."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.blocks import Differences, Merged
from gradcheck_cli.truth.layers.weighing import Rounding, blurred, left_open, weigh_block

ZERO = np.zeros((1, 1))


def kind_of(
    own: float, value: float, error: float, slope: float, kind: PointKind = PointKind.SMOOTH
) -> PointKind:
    """The kind of one entry whose difference is value ± error, beside slopes of this size. For the
    differences alone it is of this `kind`."""
    found = Differences.empty(1, 1)
    found.value[:], found.error[:], found.steepest[:] = value, error, slope
    found.kind[:] = int(kind)
    rounding = Rounding(cost=ZERO, noise=ZERO, natural=np.ones((1, 1)))
    scale = np.full((1, 1), slope)
    block, _ = weigh_block(np.full((1, 1), own), found, rounding, scale, "float64", "float32")
    return PointKind(int(block.kind[0, 0]))


@pytest.mark.parametrize("own", [np.inf, -np.inf, np.nan, 6.53])
def test_a_difference_without_a_digit_is_no_truth(own: float) -> None:
    """6.53 ± 20 says of no number that it is wrong, nor of an infinite one."""
    assert kind_of(own, 6.53, 20.0, slope=7.0) is PointKind.UNDECIDED


@pytest.mark.parametrize("own", [np.inf, np.nan])
@pytest.mark.parametrize(("value", "error"), [(6.53, 0.5), (0.0, 1e-13), (6.53, 1e-9)])
def test_a_difference_with_a_digit_is_the_truth_where_there_is_no_number(
    own: float, value: float, error: float
) -> None:
    assert kind_of(own, value, error, slope=7.0) is PointKind.SMOOTH


@pytest.mark.parametrize("own", [np.inf, np.nan])
def test_a_vertical_tangent_needs_no_digit(own: float) -> None:
    """That quotients grow without bound, as those of sqrt(x) at 0, is seen without one."""
    found = kind_of(own, 1.66, 5.9, slope=7.0, kind=PointKind.UNDEFINED)
    assert found is PointKind.UNDEFINED


@pytest.mark.parametrize(
    ("own", "open_"),
    [
        ([3.73, 1.68, 0.0], [True, True, True]),  # 0.5 % off: its other differences are off, too
        ([3.71, 1.67, 0.0], [False, False, False]),  # nothing is lost: the zero is wrong
        ([3.73, 9.0, 0.0], [True, True, True]),
        ([9.0, 9.0, 0.0], [False, False, False]),  # far more than a lost term
    ],
)
def test_a_value_that_has_lost_a_term_gives_no_truth_about_any_input(
    own: list[float], open_: list[bool]
) -> None:
    found = Differences.empty(1, 3)
    found.value[:], found.error[:] = [3.71, 1.67, -5.38], 1e-9
    none = np.full((1, 3), np.nan)
    smooth = np.zeros((1, 3), dtype=int)
    confirmed = np.abs(np.array([own]) - found.value) <= found.error
    merged = Merged(found.value, found.error, smooth, none, none, confirmed, "")
    every = np.ones((1, 3), dtype=bool)
    kinds = blurred(merged, np.array([own]), found, every).kind
    assert (kinds == PointKind.UNDECIDED).tolist() == [open_]


@pytest.mark.parametrize(
    ("own", "value", "part"),
    [
        (0.0, 1e-21, 1.0),  # a term that the gradient lost, and the difference did not
        (1e-21, 0.0, 0.5),  # the difference sees nothing: half of the gradient
        (1e-21, 0.9e-21, 0.5),
    ],
)
def test_modes_may_be_apart_by_what_rounding_hid(own: float, value: float, part: float) -> None:
    found = Differences.empty(1, 1)
    found.value[:], found.error[:] = value, 1e-24
    rounding = Rounding(cost=ZERO, noise=ZERO, natural=ZERO)

    def hide(merged: Merged) -> Merged:
        return left_open(merged, np.ones((1, 1), dtype=bool), "hidden")

    block, _ = weigh_block(np.full((1, 1), own), found, rounding, ZERO, "float64", "float64", hide)
    assert block.kind[0, 0] == PointKind.UNDECIDED
    allowed = 2 * FIRST_ORDER_SLACK * float(block.floor[0, 0])
    assert allowed == pytest.approx(part * max(own, value), rel=1e-2)

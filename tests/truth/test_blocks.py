"""Where the float64 gradient and the differences confirm or contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.blocks import (
    CONTRADICTION,
    NO_DIFFERENCE,
    TOO_FAST,
    Differences,
    Merged,
    merge,
    on_a_kink,
    unconstrained,
)
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import array, program_of


def merged(
    gradient: float,
    difference: float,
    bar: float,
    *,
    kind: PointKind = PointKind.SMOOTH,
    above: float = np.nan,
    below: float = np.nan,
    side_error: float = np.inf,
    structural: bool = False,
    floor: float = 0.0,
    condition: float = 0.0,
    dtype: str = "float32",
    vouched: bool = False,
) -> Merged:
    """One entry; `floor` and `condition` are those of float64."""
    one = Differences.empty(1, 1)
    one.value[:], one.error[:], one.kind[:] = difference, bar, int(kind)
    one.above[:], one.below[:], one.side_error[:] = above, below, side_error
    one.vouched[:] = vouched
    g = np.array([[gradient]])
    return merge(
        g,
        4 * FORMATS["float64"].ulp(g),
        one,
        structural,
        FORMATS[dtype].ulp(g),
        lambda: (np.array([[condition]]), np.array([[floor]])),
    )


def test_narrow_difference_vouches_for_the_gradient_within_its_own_bar() -> None:
    got = merged(2.0, 2.0 + 1e-12, 1e-11)
    assert got.kind == PointKind.SMOOTH
    assert got.value == 2.0
    assert got.confirmed
    assert 1e-11 <= got.error[0, 0] <= 2e-11


def test_walk_over_the_operations_is_spared_where_the_bar_is_invisible() -> None:
    def never() -> tuple:
        raise AssertionError("asked for the cost of rounding")

    one = Differences.empty(1, 1)
    one.value[:], one.error[:] = 2.0, 1e-12
    g = np.array([[2.0]])
    got = merge(g, 4 * FORMATS["float64"].ulp(g), one, False, FORMATS["float32"].ulp(g), never)
    assert got.confirmed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounding_bounds_the_error_where_the_difference_is_vague(dtype: str) -> None:
    got = merged(2.0, 2.0 + 1e-6, 1e-5, floor=1e-15, dtype=dtype)
    assert got.value == 2.0
    assert got.confirmed
    assert 4e-15 <= got.error[0, 0] <= 1e-14


def test_difference_bounds_the_error_where_rounding_is_unknown() -> None:
    got = merged(2.0, 2.0, 1e-10, floor=np.inf, dtype="float64")
    assert got.error == 1e-10


def test_gradient_that_lost_its_digits_gives_way_to_the_difference() -> None:
    got = merged(2.1, 2.0, 1e-8, floor=0.5)
    assert got.value == 2.0
    assert got.error == 1e-8
    assert not got.confirmed


def test_difference_that_cannot_be_resolved_gives_way_to_the_gradient() -> None:
    # half an ulp of the input explains the gap: the difference is one of steps beyond the period
    got = merged(2.1, 2.0, 1e-8, floor=0.5, condition=0.5)
    assert got.value == 2.1
    assert got.error[0, 0] >= 0.5
    assert got.kind == PointKind.SMOOTH


def test_contradiction_is_undecided() -> None:
    got = merged(2.1, 2.0, 1e-8, floor=1e-12)
    assert got.kind == PointKind.UNDECIDED
    assert got.reason == CONTRADICTION
    assert np.isinf(got.error)


def test_on_a_kink_of_its_own_the_program_is_not_believed() -> None:
    # where(x > 0, ..., ...) at 0 may have any gradient; the difference knows the function
    got = merged(2.1, 2.0, 1e-8, structural=True)
    assert got.kind == PointKind.SMOOTH
    assert got.value == 2.0


def test_without_a_difference_nothing_is_decided() -> None:
    got = merged(2.0, np.nan, np.inf)
    assert got.kind == PointKind.UNDECIDED
    assert got.reason == NO_DIFFERENCE


def test_gradient_that_is_no_number_gives_way_to_the_difference() -> None:
    got = merged(np.nan, 2.0, 1e-8)
    assert (got.kind, got.value, got.error) == (PointKind.SMOOTH, 2.0, 1e-8)


def test_direction_that_vouches_confirms_without_a_value() -> None:
    got = merged(2.0, np.nan, 1e-10, vouched=True, floor=1e-16)
    assert got.confirmed
    assert got.value == 2.0
    assert got.error <= 1e-10


def test_kink_has_an_interval_and_a_value_inside() -> None:
    got = merged(
        5.0, np.nan, np.inf, kind=PointKind.KINK, above=1.0, below=-1.0, side_error=1e-9,
        structural=True,
    )  # fmt: skip
    assert (got.lower, got.upper, got.value, got.error) == (-1.0, 1.0, 0.0, 1e-9)
    inside = merged(
        0.5, np.nan, np.inf, kind=PointKind.KINK, above=1.0, below=-1.0, side_error=1e-9,
        structural=True,
    )  # fmt: skip
    assert inside.value == 0.5


def test_kink_nearby_is_no_kink_here() -> None:
    # relu at 1e-12: the steps see both slopes, but no operation stands on its kink
    got = merged(
        1.0, 0.5, 0.6, kind=PointKind.KINK, above=1.0, below=0.0, side_error=1e-9,
    )  # fmt: skip
    assert got.kind == PointKind.SMOOTH
    assert got.value == 1.0
    assert got.lower == got.upper == 1.0
    assert got.error <= 1e-8


@pytest.mark.parametrize("kind", [PointKind.KINK, PointKind.JUMP, PointKind.UNDEFINED])
def test_rough_function_without_a_rough_operation_is_too_fast(kind: PointKind) -> None:
    got = merged(3.0, 9.0, 1e-3, kind=kind, above=9.0, below=-7.0, side_error=1e-3)
    assert got.kind == PointKind.UNDECIDED
    assert got.reason == TOO_FAST


@pytest.mark.parametrize("kind", [PointKind.JUMP, PointKind.UNDEFINED])
def test_point_without_a_derivative_has_no_truth(kind: PointKind) -> None:
    got = merged(3.0, np.nan, np.inf, kind=kind, structural=True)
    assert got.kind == kind
    assert np.isnan(got.value)


def test_second_derivative_at_a_kink_of_the_gradient_is_anything() -> None:
    rough = merged(3.0, np.nan, np.inf, kind=PointKind.JUMP, structural=True)
    got = unconstrained(rough)
    assert got.kind == PointKind.KINK
    assert (got.lower, got.upper) == (-np.inf, np.inf)
    smooth = merged(2.0, 2.0, 1e-12)
    assert unconstrained(smooth).lower == 2.0


@pytest.mark.parametrize(
    ("formula", "inputs", "on"),
    [
        ("relu(x)", {"x": 0.0}, {"relu"}),
        ("relu(x)", {"x": 1e-300}, set()),
        ("abs(x - y)", {"x": 2.0, "y": 2.0}, {"abs"}),
        ("max(x)", {"x": np.array([1.0, 3.0, 3.0])}, {"max"}),
        ("max(x)", {"x": np.array([3.0, 1.0, 1.0])}, set()),
        ("where(x > 1, x, 2 * x)", {"x": 1.0}, {"greater"}),
        ("clip(x, 0, 1)", {"x": np.array([0.5, 1.0])}, {"clip"}),
        ("norm(x)", {"x": np.zeros(2)}, {"norm"}),
        ("floor(x) + remainder(x, 2)", {"x": 4.0}, {"floor", "remainder"}),
        ("exp(x)", {"x": 0.0}, set()),
    ],
)
def test_operations_on_a_kink_of_their_own(formula: str, inputs: dict, on: set[str]) -> None:
    values = {name: array(value) for name, value in inputs.items()}
    program = program_of(formula, values)
    nodes = PlainFunction(program, "float64").nodes(values)
    assert on_a_kink(nodes, program, values) == on

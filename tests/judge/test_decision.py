"""The decision table, row by row, on truth made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS, wider
from gradcheck_cli.domain.spec import Tolerance
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.decision import TABLE, Evidence, Verdict, judge_block
from gradcheck_cli.judge.measures import Again, accepted, error_in_ulps
from tests.judge.making import block, rows

NAN, INF = np.nan, np.inf
KINK, UNDEFINED = PointKind.KINK, PointKind.UNDEFINED
JUMP, OPEN = PointKind.JUMP, PointKind.UNDECIDED
ULP = 2.0**-23  # of float32 at 1
TINY = FORMATS["float32"].smallest_normal
LARGEST = FORMATS["float32"].largest


def verdict(
    g: Any,
    truth: TruthBlock,
    *,
    wide: Any = None,
    lost: bool = False,
    dtype: str = "float32",
    tolerance: Tolerance | None = None,
) -> Verdict:
    """The verdict of the only entry; `wide` is what the engine computes in the other precision.
    No row of the table that applies is skipped, as those above CORRECT are for plain entries."""
    again = None if wide is None else Again(rows(wide), wider(dtype))
    lost_rows = np.array([[lost]])
    evidence = Evidence(rows(g), truth, again, lost_rows, FORMATS[dtype], tolerance)
    (one,) = judge_block(evidence).verdict.reshape(-1)
    assert one == next((row for row, applies in TABLE if np.any(applies(evidence))), 0)
    return Verdict(int(one))


@pytest.mark.parametrize(
    ("g", "truth", "expected"),
    [
        # within a few ulps, of either sign and of any size
        (1.0, block(1.0), Verdict.CORRECT),
        (1 + 4 * ULP, block(1.0), Verdict.CORRECT),
        (-1 - 4 * ULP, block(-1.0), Verdict.CORRECT),
        (2.0**-90 * (1 - 4 * ULP), block(2.0**-90), Verdict.CORRECT),
        (2.0**90 * (1 + 4 * ULP), block(2.0**90), Verdict.CORRECT),
        (0.0, block(0.0), Verdict.CORRECT),
        (-0.0, block(0.0), Verdict.CORRECT),
        # within the error bar of the truth
        (1.0001, block(1.0, 1.1e-4), Verdict.CORRECT),
        # within what rounding each operation once costs a well-behaved program
        (1 + 40 * ULP, block(1.0, allowance=10 * ULP), Verdict.CORRECT),
        # a quarter of the 24 bits may be lost before anything is said
        (1 + 63 * ULP, block(1.0), Verdict.CORRECT),
        (1 + 65 * ULP, block(1.0), Verdict.PRECISION),
        (1 + 65 * ULP, block(1.0, floor=1.0), Verdict.PRECISION),  # R does not excuse it
    ],
)
def test_finite_entries_of_smooth_points(g: float, truth: TruthBlock, expected: Verdict) -> None:
    assert verdict(g, truth, wide=truth.value) is expected


@pytest.mark.parametrize(
    ("g", "truth", "expected"),
    [
        (NAN, block(2.0), Verdict.NAN),
        (INF, block(2.0), Verdict.INFINITE),
        (-INF, block(2.0), Verdict.INFINITE),
        (NAN, block(0.0), Verdict.NAN),
        (NAN, block(2.0, 1e30), Verdict.NAN),  # no error bar makes nan right
        # at points without a derivative only a number is taken for an answer
        (NAN, block(NAN, INF, kind=UNDEFINED), Verdict.NAN),
        (INF, block(NAN, INF, kind=UNDEFINED), Verdict.INFINITE),
        (NAN, block(0.0, kind=JUMP), Verdict.NAN),
        (INF, block(0.0, kind=JUMP), Verdict.INFINITE),
        (NAN, block(0.0, kind=KINK, between=(-1, 1)), Verdict.NAN),
        (INF, block(0.0, kind=KINK, between=(-1, 1)), Verdict.INFINITE),
        # where nothing is known, an infinity may be right; nan never is
        (INF, block(NAN, INF, kind=OPEN), Verdict.UNDECIDED),
        (NAN, block(NAN, INF, kind=OPEN), Verdict.NAN),
    ],
)
def test_nan_and_infinity(g: float, truth: TruthBlock, expected: Verdict) -> None:
    assert verdict(g, truth, wide=truth.value) is expected


@pytest.mark.parametrize("g", [NAN, INF, 0.0, 1.0])
def test_lost_output_comes_before_everything(g: float) -> None:
    assert verdict(g, block(1.0), lost=True) is Verdict.OUTPUT_LOST


@pytest.mark.parametrize(
    ("g", "truth", "expected"),
    [
        (INF, 2 * LARGEST, Verdict.OVERFLOW),
        (-INF, -2 * LARGEST, Verdict.OVERFLOW),
        (INF, INF, Verdict.OVERFLOW),
        (-INF, 2 * LARGEST, Verdict.INFINITE),
        (INF, LARGEST, Verdict.INFINITE),
        (INF, LARGEST / 2, Verdict.INFINITE),
    ],
)
def test_infinity_is_right_where_the_truth_does_not_fit(
    g: float, truth: float, expected: Verdict
) -> None:
    assert verdict(g, block(truth), wide=truth) is expected


@pytest.mark.parametrize(
    ("g", "truth", "expected"),
    [
        (0.0, TINY / 2, Verdict.CORRECT),
        (-0.0, -TINY / 2, Verdict.CORRECT),
        (TINY / 4, TINY / 2, Verdict.CORRECT),
        (0.0, 1e-300, Verdict.CORRECT),
        (0.0, TINY, Verdict.UNDERFLOW),
        (-0.0, -8.7565e-27, Verdict.UNDERFLOW),  # 1 / exp(60)
        (3 * TINY, TINY / 2, Verdict.PRECISION),
    ],
)
def test_flushing_to_zero_is_right_below_the_smallest_normal_number(
    g: float, truth: float, expected: Verdict
) -> None:
    assert verdict(g, block(truth), wide=truth) is expected


def test_flushing_follows_the_dtype() -> None:
    tiny = FORMATS["float64"].smallest_normal
    assert verdict(0.0, block(TINY / 2), wide=0.0, dtype="float64") is Verdict.UNDERFLOW
    assert verdict(0.0, block(tiny / 2), wide=0.0, dtype="float64") is Verdict.CORRECT
    assert verdict(0.0, block(1e-6), wide=1e-6, dtype="float16") is Verdict.CORRECT
    assert verdict(0.0, block(1e-6), wide=1e-6, dtype="bfloat16") is Verdict.UNDERFLOW


ULPS_20 = Tolerance(ulps={"": 20.0})
ULPS_BY_DTYPE = Tolerance(ulps={"float32": 20.0, "float64": 2.0})
PART = Tolerance(rtol={"": 1e-3})
PART_AND_MORE = Tolerance(rtol={"float32": 1e-3}, atol={"float32": 0.5})
OF_BFLOAT16 = Tolerance(ulps={"bfloat16": 1e6})
NOTHING = Tolerance(ulps={"": 0.0})


@pytest.mark.parametrize(
    ("tolerance", "dtype", "g", "expected"),
    [
        (ULPS_20, "float32", 1 + 20 * ULP, Verdict.CORRECT),
        (ULPS_20, "float32", 1 + 21 * ULP, Verdict.PRECISION),  # stated limits are kept exactly
        (ULPS_20, "float64", 1 + 20 * 2.0**-52, Verdict.CORRECT),
        (ULPS_20, "float64", 1 + 21 * 2.0**-52, Verdict.PRECISION),
        (ULPS_BY_DTYPE, "float32", 1 + 20 * ULP, Verdict.CORRECT),
        (ULPS_BY_DTYPE, "float64", 1 + 3 * 2.0**-52, Verdict.PRECISION),
        (ULPS_BY_DTYPE, "float16", 1 + 3 * 2.0**-10, Verdict.CORRECT),  # a few: nothing stated
        (PART, "float32", 1 + 9e-4, Verdict.CORRECT),
        (PART, "float32", 1 + 1.1e-3, Verdict.PRECISION),
        (PART_AND_MORE, "float32", 1.5009, Verdict.CORRECT),
        (PART_AND_MORE, "float32", 1.6, Verdict.PRECISION),
        (PART_AND_MORE, "float64", 1 + 9e-4, Verdict.PRECISION),  # stated for float32 alone
        (OF_BFLOAT16, "float32", 1 + 65 * ULP, Verdict.PRECISION),
        (NOTHING, "float32", 1 + ULP, Verdict.PRECISION),
        (NOTHING, "float32", 1.0, Verdict.CORRECT),
    ],
)
def test_what_the_user_accepts(
    tolerance: Tolerance, dtype: str, g: float, expected: Verdict
) -> None:
    assert verdict(g, block(1.0), dtype=dtype, tolerance=tolerance) is expected


def test_tolerance_is_relative_to_the_entry() -> None:
    assert verdict(1e-9, block(2e-9), wide=2e-9, tolerance=PART) is Verdict.PRECISION
    assert verdict(1.0005e9, block(1e9), wide=1e9, tolerance=PART) is Verdict.CORRECT


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        (-1.0, Verdict.KINK),
        (-0.25, Verdict.KINK),
        (0.0, Verdict.KINK),
        (1.0, Verdict.KINK),
        (1 + 3 * ULP, Verdict.KINK),
        (1.001, Verdict.WRONG),
        (-1.001, Verdict.WRONG),
        (2.0, Verdict.WRONG),
    ],
)
def test_kink_accepts_what_lies_between_the_slopes(g: float, expected: Verdict) -> None:
    assert verdict(g, block(0.0, kind=KINK, between=(-1, 1)), wide=g) is expected


def test_kink_with_an_error_bar() -> None:
    truth = block(0.5, 0.01, kind=KINK, between=(0, 1))
    assert verdict(1.009, truth) is Verdict.KINK
    assert verdict(1.02, truth) is Verdict.WRONG


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(UNDEFINED, Verdict.UNDEFINED), (JUMP, Verdict.JUMP), (OPEN, Verdict.UNDECIDED)],
)
@pytest.mark.parametrize("g", [0.0, 1.0, -7e30])
def test_where_there_is_no_derivative_every_number_is_taken(
    kind: PointKind, expected: Verdict, g: float
) -> None:
    assert verdict(g, block(NAN, INF, kind=kind, between=(NAN, NAN))) is expected


@pytest.mark.parametrize(
    ("dtype", "error", "expected"),
    [
        ("float32", 2.0**-13, Verdict.CORRECT),  # 12 of 24 bits are known
        ("float32", 2.0**-11, Verdict.UNDECIDED),
        ("float64", 2.0**-28, Verdict.CORRECT),
        ("float64", 2.0**-25, Verdict.UNDECIDED),
        ("bfloat16", 2.0**-5, Verdict.CORRECT),
        ("float32", INF, Verdict.UNDECIDED),
    ],
)
def test_wide_error_bar_is_no_pass(dtype: str, error: float, expected: Verdict) -> None:
    assert verdict(1.0, block(1.0, error), dtype=dtype) is expected


def test_wide_error_bar_still_convicts_what_lies_far_outside() -> None:
    assert verdict(2.0, block(1.0, 0.01), wide=2.0) is Verdict.WRONG


def test_what_is_tolerated_wherever_the_truth_is_needs_no_better_truth() -> None:
    wide = block(6.2e-8, 1e-9, scale=1.0)
    near = Tolerance(rtol={"": 1e-4}, atol={"": 1e-5})
    assert verdict(0.0, wide, dtype="float64", tolerance=near) is Verdict.CORRECT
    assert verdict(6.2e-8, wide, dtype="float64") is Verdict.UNDECIDED
    tight = Tolerance(atol={"": 6.25e-8})  # the truth may lie beyond
    assert verdict(0.0, wide, dtype="float64", tolerance=tight) is Verdict.UNDECIDED


def test_zero_is_measured_against_the_derivative_nearby() -> None:
    """A truth that cannot be told from zero has no digits of its own."""
    assert verdict(0.0, block(0.0, 1e-6, scale=1.0)) is Verdict.CORRECT
    assert verdict(0.0, block(0.0, 1e-2, scale=1.0)) is Verdict.UNDECIDED
    assert verdict(0.0, block(0.0, 1e-6, scale=1e-6)) is Verdict.UNDECIDED


def test_what_cancellation_leaves_of_a_zero_is_right() -> None:
    left = block(0.0, 1e-16, scale=1.0, floor=1e-7)
    assert verdict(3e-7, left, wide=1e-16) is Verdict.CORRECT
    assert verdict(3e-3, left, wide=1e-16) is Verdict.PRECISION
    assert verdict(0.5, left, wide=0.5) is Verdict.WRONG


WRONG, PRECISION = Verdict.WRONG, Verdict.PRECISION


@pytest.mark.parametrize(
    ("g", "wide", "truth", "expected"),
    [
        # the same wrong number in both precisions
        (-1.0, -1.0, block(1.0), WRONG),
        (1.0001, 1.0001000001, block(1.0), WRONG),
        (1e-9, 1e-9, block(2e-9), WRONG),
        (1.0, 1.0, block(0.0, scale=1.0), WRONG),
        # right in the other precision
        (-1.0, 1.0, block(1.0), PRECISION),
        (1.0001, 1.0, block(1.0), PRECISION),
        # off in both, but each by its own rounding
        (1.3, 1.0000001, block(1.0), PRECISION),
        (1.3, 0.9, block(1.0), PRECISION),
        (0.0, 1.0, block(1.0), Verdict.UNDERFLOW),
        # zero in both is no proof: what float32 absorbs, float64 may absorb too
        (0.0, 0.0, block(1e-30, scale=1.0), Verdict.UNDERFLOW),
        # nothing to compare with
        (1.3, None, block(1.0), PRECISION),
        (1.3, NAN, block(1.0), PRECISION),
        # the derivative that the user stated differs from the truth, and the engine follows it
        (-1.0, None, block(1.0, stated=-1.0), WRONG),
        (0.0, 0.0, block(1.0, stated=0.0), WRONG),
        (-1.0, NAN, block(1.0, stated=-1.0), WRONG),
        (-1.0, 1.0, block(1.0, stated=-1.0), PRECISION),  # the engine does not follow it
        (1.3, 1.0, block(1.0, stated=1.0), PRECISION),
        (-1.0, None, block(1.0, stated=NAN), PRECISION),
    ],
)
def test_wrong_is_told_from_unstable_by_the_other_precision(
    g: float, wide: float | None, truth: TruthBlock, expected: Verdict
) -> None:
    assert verdict(g, truth, wide=wide) is expected


def test_a_zero_that_no_rounding_makes_is_wrong() -> None:
    def told(floor: float, *, repairable: bool, wide: float = 0.0) -> Verdict:
        judged = judge_block(
            Evidence(
                rows(0.0),
                block(1e-10, floor=floor),
                Again(rows(wide), FORMATS["float64"]),
                np.array([[False]]),
                FORMATS["float32"],
                None,
                repairable=repairable,
            )
        )
        return Verdict(int(judged.verdict[0, 0]))

    assert told(1e-7, repairable=False) is Verdict.WRONG  # in float64 rounding moves it by 2e-16
    assert told(1e-7, repairable=True) is Verdict.UNDERFLOW  # an operation was found that does it
    assert told(1.0, repairable=False) is Verdict.UNDERFLOW  # so much is lost in float64, too
    assert told(np.inf, repairable=False) is Verdict.UNDERFLOW
    assert told(1e-7, repairable=False, wide=1e-10) is Verdict.UNDERFLOW


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (block(0.5, scale=1.0), Verdict.WRONG),
        (block(1e-7, scale=1.0), Verdict.WRONG),
        (block(1e-12, scale=1.0), Verdict.UNDERFLOW),  # float64 may absorb it
        (block(1e-20, scale=1e-20), Verdict.UNDERFLOW),  # by 1 - y^2
        (block(1e90, scale=1e90), Verdict.UNDERFLOW),  # its fourth power overflows
        (block(0.5, scale=np.inf), Verdict.UNDERFLOW),  # nothing is known of its neighbours
    ],
)
def test_a_zero_of_natural_size_is_wrong_where_nobody_saw_its_operations(
    truth: TruthBlock, expected: Verdict
) -> None:
    for dtype in ("float32", "float64"):
        inside = dtype == "float64" or abs(float(truth.value[0, 0])) < LARGEST
        if inside and abs(float(truth.value[0, 0])) > TINY:
            assert verdict(0.0, truth, wide=0.0, dtype=dtype) is expected
    assert verdict(0.0, truth, wide=None, dtype="float64") is Verdict.UNDERFLOW


@pytest.mark.parametrize(
    ("steepest", "expected"),
    [(0.0, Verdict.WRONG), (1e-10, Verdict.WRONG), (1.0, Verdict.PRECISION)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_repeated_error_below_the_rounding_of_a_steeper_derivative_is_no_proof(
    steepest: float, expected: Verdict, dtype: str
) -> None:
    wide = Again(rows(3e-20), wider(dtype))
    evidence = Evidence(
        rows(3e-20),
        block(2e-18),
        wide,
        np.array([[False]]),
        FORMATS[dtype],
        None,
        steepest=np.array([[steepest]]),
    )
    (one,) = judge_block(evidence).verdict.reshape(-1)
    assert one == expected


def test_wrong_in_float64_is_seen_in_float32() -> None:
    assert verdict(1.0001, block(1.0), wide=1.0001, dtype="float64") is Verdict.WRONG
    assert verdict(1.0001, block(1.0), wide=1.001, dtype="float64") is Verdict.PRECISION


def test_an_error_of_float64_that_float32_does_not_have_is_no_rounding() -> None:
    assert verdict(1 + 1e-7, block(1.0), wide=1 + ULP, dtype="float64") is Verdict.WRONG
    assert verdict(1 + 1e-7, block(1.0), wide=1 + 2000 * ULP, dtype="float64") is Verdict.PRECISION
    # as long as it loses fewer than half of them, it is a note on precision as ever
    assert verdict(1 + 1e-10, block(1.0), wide=1 + ULP, dtype="float64") is Verdict.PRECISION
    # terms that cancel may do so exactly in float32, where rounding explains the error
    unstable = block(1.0, floor=1e-6)
    assert verdict(1 + 1e-7, unstable, wide=1.0, dtype="float64") is Verdict.PRECISION
    assert verdict(1 + 1e-5, unstable, wide=1.0, dtype="float64") is Verdict.WRONG


@pytest.mark.parametrize(
    ("g", "wide", "truth", "expected"),
    [
        # float32 holds the truth and what is off: its number is evidence
        (0.0, 1e-30, block(1e-30), Verdict.WRONG),
        (2e-30, 2e-30, block(1e-30), Verdict.WRONG),
        (1e-30, 1e-30, block(0.0, scale=1e-30), Verdict.WRONG),
        # below its normal numbers it has 0, or a few digits, for whatever the truth is
        (0.0, 0.0, block(3.6e-52), Verdict.UNDERFLOW),
        (0.0, 1e-40, block(1e-40), Verdict.UNDERFLOW),
        (1e-51, 0.0, block(3.6e-52), Verdict.PRECISION),
        (2e-40, 2e-40, block(1e-40), Verdict.PRECISION),
        (1e-300, 0.0, block(0.0, scale=1e-300), Verdict.PRECISION),
        # above its largest it has infinity
        (2e200, INF, block(1e200), Verdict.PRECISION),
    ],
)
def test_another_precision_is_evidence_only_of_what_it_can_hold(
    g: float, wide: float, truth: TruthBlock, expected: Verdict
) -> None:
    assert verdict(g, truth, wide=wide, dtype="float64") is expected


@pytest.mark.parametrize(
    ("floor", "repairable", "expected"),
    [
        (0.0, None, Verdict.WRONG),
        (0.0, True, Verdict.WRONG),
        (1e-4, None, Verdict.WRONG),  # less than the error
        (1.0, None, Verdict.PRECISION),  # such an error float64 makes, in a kernel of either run
        (1.0, True, Verdict.PRECISION),
        (INF, None, Verdict.WRONG),  # what rounding costs is unknown, as in a transform by torch
        # the same operations done exactly are as wrong
        (1.0, False, Verdict.WRONG),
        (INF, False, Verdict.WRONG),
    ],
)
def test_an_error_in_two_precisions_is_no_proof_where_roundings_of_the_finer_explain_it(
    floor: float, repairable: bool | None, expected: Verdict
) -> None:
    """`floor` is what rounding each operation to float64 may cost."""
    lost = np.zeros((1, 1), dtype=bool)
    for dtype, ratio in (("float64", 1.0), ("float32", 2.0**29)):
        fmt = FORMATS[dtype]
        evidence = Evidence(
            rows(1.2),
            block(1.0, floor=floor * ratio),
            Again(rows(1.2), wider(dtype)),
            lost,
            fmt,
            None,
            repairable=repairable,
        )
        assert judge_block(evidence).verdict.tolist() == [[expected]]


def test_a_stated_derivative_that_is_followed_is_wrong_whatever_rounding_costs() -> None:
    for floor in (0.0, 1.0, INF):
        stated = block(1.0, floor=floor, stated=1.2)
        assert verdict(1.2, stated, wide=1.2, dtype="float64") is Verdict.WRONG


def test_entries_that_float32_cannot_hold_are_no_evidence_about_others() -> None:
    """The first entry is 0 in float32 whatever the formula; the second lost digits to rounding."""
    truth = block([[3.6e-52, 1.0]])
    single = Again(rows([[0.0, 1 + ULP]]), FORMATS["float32"])
    fmt, kept = FORMATS["float64"], np.zeros((1, 1), dtype=bool)
    judged = judge_block(Evidence(rows([[0.0, 1 + 1e-10]]), truth, single, kept, fmt, None))
    assert judged.verdict.tolist() == [[Verdict.UNDERFLOW, Verdict.PRECISION]]


@pytest.mark.parametrize(
    ("g", "truth", "expected"),
    [
        # C explains the error, and many bits are gone
        (1.001, block(1.0, condition=1e-3), Verdict.ILL_CONDITIONED),
        (1.01, block(1.0, condition=1e-3), Verdict.PRECISION),  # ten times what C explains
        # what operations cost is told where it is more than half of the digits
        (1.01, block(1.0, condition=1e-3, allowance=1e-2), Verdict.ILL_CONDITIONED),
        (1.0003, block(1.0, condition=1e-5, allowance=1e-3), Verdict.CORRECT),
        # few bits are gone: not worth a word
        (1 + 40 * ULP, block(1.0, condition=10 * ULP), Verdict.CORRECT),
        # C comes before "the same in every precision": the inputs are rounded in both
        (1.001, block(1.0, condition=1e-3, stated=1.001), Verdict.ILL_CONDITIONED),
        # C says more than a wide error bar does
        (1.001, block(1.0, 0.01, condition=0.01), Verdict.ILL_CONDITIONED),
        (1.001, block(1.0, 0.01, condition=1e-4), Verdict.UNDECIDED),
        (1.001, block(1.0, 0.5, condition=1.0), Verdict.UNDECIDED),  # not even a digit is known
        (1e-3, block(0.0, 1e-9, condition=1e-3, scale=1.0), Verdict.ILL_CONDITIONED),
        # small beside what the derivative is nearby, but all that there is
        (0.0, block(1e-9, condition=1e-8, scale=1.0), Verdict.ILL_CONDITIONED),
    ],
)
def test_ill_conditioned(g: float, truth: TruthBlock, expected: Verdict) -> None:
    assert verdict(g, truth, wide=truth.value) is expected


@pytest.mark.parametrize(
    ("g", "columns", "expected"),
    [
        ((1.01, 0.5), {"condition": 1e-5, "allowance": 1e-2}, Verdict.PRECISION),
        ((0.0, 1.0), {"condition": 1e-5, "allowance": 1.0}, Verdict.UNDERFLOW),
        ((1.01, 0.5), {"condition": 1e-3, "allowance": 1e-2}, Verdict.ILL_CONDITIONED),  # 10 C
        # small beside the largest entry, so that no search calls it a failure
        ((1.01, 1e3), {"condition": 1e-5, "allowance": 1e-2}, Verdict.ILL_CONDITIONED),
    ],
)
def test_what_a_search_calls_a_failure_is_excused_by_16_times_c_alone(
    g: tuple[float, float], columns: dict[str, float], expected: Verdict
) -> None:
    """Where the truth is enclosed, as a search needs it; operations explain no more."""
    beside = g[1]
    truth = block([[1.0, beside]], **columns)
    sure = replace(truth, certified=np.ones((1, 2), dtype=bool))
    fmt = FORMATS["float32"]
    found = [
        judge_block(
            Evidence(
                rows([[g[0], beside]]),
                known,
                Again(known.value, wider("float32")),
                np.zeros((1, 1), dtype=bool),
                fmt,
                None,
            )
        ).verdict[0, 0]
        for known in (truth, sure)
    ]
    assert found == [Verdict.ILL_CONDITIONED, expected]


def test_an_ill_conditioned_entry_that_is_nothing_beside_the_others_is_not_worth_a_word() -> None:
    truth = block([[1.0, 1e-9]], [[0.0, 0.0]], condition=1e-8, scale=1.0)
    nothing_lost = np.zeros((1, 1), dtype=bool)
    g = rows([[1.0, 0.0]])
    judged = judge_block(
        Evidence(
            g, truth, Again(truth.value, FORMATS["float64"]), nothing_lost, FORMATS["float32"], None
        )
    )
    assert judged.verdict.tolist() == [[Verdict.CORRECT, Verdict.CORRECT]]


def test_entries_of_a_block_are_judged_one_by_one() -> None:
    truth = block(
        [[1.0, 1.0, 0.0], [1.0, NAN, 1.0]],
        [[0.0, 0.0, 0.0], [1.0, INF, 0.0]],
        kind=[[0, 0, KINK], [0, UNDEFINED, 0]],
        between=([[1, 1, -1], [1, NAN, 1]], [[1, 1, 1], [1, NAN, 1]]),
    )
    g = rows([[1.0, -1.0, 0.5], [1.0, 3.0, NAN]])
    wide = Again(rows([[1.0, -1.0, 0.5], [1.0, 3.0, 1.0]]), FORMATS["float64"])
    nothing_lost = np.zeros((2, 1), dtype=bool)
    judged = judge_block(Evidence(g, truth, wide, nothing_lost, FORMATS["float32"], None))
    assert judged.verdict.tolist() == [
        [Verdict.CORRECT, Verdict.WRONG, Verdict.KINK],
        [Verdict.UNDECIDED, Verdict.UNDEFINED, Verdict.NAN],
    ]
    assert judged.ulps[0, :2].tolist() == [0.0, 2.0 / ULP]
    second = np.array([[False], [True]])
    lost = judge_block(Evidence(g, truth, wide, second, FORMATS["float32"], None)).verdict
    assert lost.tolist() == [
        [Verdict.CORRECT, Verdict.WRONG, Verdict.KINK],
        [Verdict.OUTPUT_LOST] * 3,
    ]


@pytest.mark.parametrize(
    ("g", "truth", "ulps"),
    [
        (1 + ULP, 1.0, 1.0),
        (1.0, 1 + ULP, 1.0),
        (-1.0, 1.0, 2.0 / ULP),
        (0.0, 0.0, 0.0),
        (2.0**-149, 0.0, 1.0),  # the smallest subnormal is the unit at zero
        (INF, 2 * LARGEST, 0.0),
        (INF, 1.0, INF),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
    ],
)
def test_error_in_ulps(g: float, truth: float, ulps: float) -> None:
    got = error_in_ulps(np.array([[g]]), np.array([[truth]]), FORMATS["float32"])
    np.testing.assert_array_equal(got, [[ulps]])


@pytest.mark.parametrize("g", [1 + 5 * ULP, -1.0, NAN, INF])
def test_only_what_is_not_simply_right_is_looked_at_again(g: float) -> None:
    truth = block(1.0, allowance=1.0, condition=1.0)
    assert not accepted(rows(g), truth, FORMATS["float32"], None)
    assert accepted(rows(1 + FEW_ULPS * ULP), truth, FORMATS["float32"], None)

"""What is said of the value of a program itself, of cases made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.domain.truth import Cost
from gradcheck_cli.judge.outputs import lost_rows, output_findings, worst_output
from tests.judge.making import answer, block, case

NAN, INF = np.nan, np.inf


def made(
    output: Any,
    exact: Any,
    *,
    condition: float | None = None,
    allowance: float = 0.0,
    certified: bool = True,
) -> Case:
    """One answer with this output, in float32. `condition`: what rounding the inputs costs, if
    known; `allowance`: what rounding benign operations may."""
    shaped = np.asarray(exact, dtype=np.float64)
    plain = case([answer({"x": 1.0}, output=output)], {"x": block(1.0)}, output=exact)
    assert plain.truth is not None
    zeros = np.zeros(shaped.shape)
    cost = None if condition is None else Cost(zeros + condition, zeros + allowance, zeros)
    truth = replace(plain.truth, output_certified=certified, output_cost=cost)
    return replace(plain, truth=truth)


def said(one: Case) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in output_findings(one, one.evaluations[0])]


@pytest.mark.parametrize(
    ("output", "exact", "condition", "expected"),
    [
        (1.0, 1.0, 0.0, []),
        (1 + 2**-6, 1.0, None, []),  # the cost of rounding is not known yet
        (1 + 2**-6, 1.0, 0.0, [("GC303", "warning")]),
        (1 + 2**-6, 1.0, 2**-6, [("GC502", "note")]),
        (1 + 2**-14, 1.0, 0.0, []),  # less than half of the digits
        (2**-30, 0.0, 0.0, []),  # a zero that no way of computing hits
        (0.0, 1.0, 0.0, [("GC303", "warning")]),
        (NAN, 1.0, 0.0, [("GC203", "error")]),
        (INF, 1.0, 0.0, [("GC203", "error")]),
        (INF, 1e39, 0.0, [("GC203", "warning")]),  # as it should be in float32
        (-INF, 1e39, 0.0, [("GC203", "error")]),
    ],
)
def test_an_output(output: float, exact: float, condition: float | None, expected: Any) -> None:
    assert said(made(output, exact, condition=condition)) == expected


@pytest.mark.parametrize(
    ("error", "condition", "expected"),
    [
        (2**-10, 0.0, [("GC303", "warning")]),
        (2**-7, 2**-12, [("GC303", "warning")]),  # 32 times what rounding the inputs does
        (2**-9, 2**-12, []),  # 8 times
    ],
)
def test_benign_roundings_excuse_what_the_inputs_own_do(
    error: float, condition: float, expected: Any
) -> None:
    """Where half of the digits are lost: up to 16 times what half an ulp of the inputs does."""
    one = made(1 + error, 1.0, condition=condition, allowance=2.0**-4)
    assert said(one) == expected


def test_an_infinity_that_no_precision_avoids_is_a_warning_unless_it_is_enclosed() -> None:
    assert said(made(-INF, -INF, certified=False)) == [("GC203", "warning")]


def test_the_message_names_the_worst_element_and_its_number() -> None:
    one = made([1.0, NAN, 3.0], [1.0, 2.0, 3.0])
    (found,) = output_findings(one, one.evaluations[0])
    assert found.message.startswith("the output at (1,) is nan")
    far = made([1.0, 2 + 2**-5, 3 + 2**-9], [1.0, 2.0, 3.0], condition=0.0)
    (found,) = output_findings(far, far.evaluations[0])
    assert found.message.startswith("2 of 3 outputs: ")
    assert [entry.index for entry in found.entries] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("output", "exact", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0, 2.5], [1.0, 2.0], (1, 2.0)),
        ([1.5, NAN], [1.0, 2.0], (1, 2.0)),
        ([1.0, NAN], [1.0, NAN], (1, None)),
    ],
)
def test_the_worst_output_and_what_it_should_be(output: Any, exact: Any, expected: Any) -> None:
    one = made(output, exact)
    assert worst_output(one, one.evaluations[0]) == expected


def test_rows_without_a_value_are_lost() -> None:
    one = made([1.0, NAN, INF], [1.0, 2.0, 3.0])
    (evaluation,) = one.evaluations
    np.testing.assert_array_equal(lost_rows(one, evaluation), [[False], [True], [True]])
    combined = replace(one, projections={"reverse": Projection(rows=np.ones((1, 3)))})
    np.testing.assert_array_equal(lost_rows(combined, evaluation), [[True]])


def test_every_mode_computes_one_value_which_is_told_once() -> None:
    reverse = made(2.0, 1.0, condition=0.0)
    both = (*reverse.evaluations, replace(reverse.evaluations[0], mode="forward"))
    twice = replace(reverse, evaluations=both)
    assert len([f for e in both for f in output_findings(twice, e)]) == 1


@pytest.mark.parametrize(("error", "expected"), [(2e-20, []), (1e-25, [("GC303", "warning")])])
def test_a_value_whose_enclosure_holds_zero_is_one_that_nothing_hits(
    error: float, expected: Any
) -> None:
    one = made(2**-30, 1e-20, condition=0.0)
    assert one.truth is not None
    truth = replace(one.truth, output_error=np.asarray(error))
    assert said(replace(one, truth=truth)) == expected

"""Fixes of a case: who is asked what, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.report import Finding, Fix
from gradcheck_cli.explain.fixes import trials
from gradcheck_cli.truth.formulas.screening import screen
from tests.conftest import Judged, loaded
from tests.every import first

Judge = Callable[..., Judged]


def truth_request(found: Judged) -> TruthRequest:
    case = found.case
    return TruthRequest(
        program=case.spec.program,
        values=case.values,
        bounds={},
        wrt=case.spec.wrt,
        dtype=case.dtype,
        projections=case.projections,
    )


def fixed(
    found: Judged,
    change: Callable[[trials.Tried, Evaluation], Evaluation] | None = None,
    tried: dict[trials.Tried, Evaluation] | None = None,
) -> tuple[Finding, ...]:
    """The findings after the three steps; `change` spoils answers of the engines, which are put
    into `tried`."""
    request = trials.request(found.case, truth_request(found), found.findings)
    screened = None if request is None else screen(request)
    tries = trials.Trials(found.case, found.findings, screened)
    tries.answers = {} if tried is None else tried
    for asked in tries.rounds():
        for one, problem in asked.items():
            answer = loaded(one.engine).evaluate(problem)
            tries.answers[one] = answer if change is None else change(one, answer)
    return tries.with_fixes()


def fix_of(finding: Finding) -> Fix:
    assert finding.fix is not None, finding.no_fix
    return finding.fix


def test_a_defect_gets_the_form_that_was_tried(judged: Judge) -> None:
    (finding,) = fixed(judged("2 * (1 / exp(x))", {"x": 100.0}, engines=("reference",)))
    fix = fix_of(finding)
    assert (fix.before, fix.after, fix.model) == ("1 / exp(x)", "exp(-x)", "2 * exp(-x)")
    assert fix.value == pytest.approx(-2 * np.exp(-100.0), abs=1e-44)
    assert fix.ulps_before is None or np.isnan(fix.ulps_before)
    assert fix.ulps_after is not None
    assert fix.ulps_after <= 4
    assert (fix.right, fix.points) == (8, 8)
    assert "torch.exp(-x)" in fix.code["torch"]


def test_a_formula_of_the_engine_that_is_wrong_is_written_out(judged: Judge) -> None:
    """TensorFlow's gelu rounds its constants to float32: wrong in float64, whatever the input."""
    found = judged("sum(gelu(x))", {"x": [0.5]}, dtype="float64", engines=("tensorflow",))
    (finding,) = (one for one in fixed(found) if one.severity == "error")
    assert finding.code == "GC101"
    assert fix_of(finding).before == "gelu(x)"
    assert (fix_of(finding).right, fix_of(finding).points) == (8, 8)


def test_the_entry_that_is_shown_is_the_worst_one(judged: Judge) -> None:
    (finding,) = fixed(judged("1 / exp(x)", {"x": [1.0, 100.0]}, engines=("reference",)))
    fix = fix_of(finding)
    assert finding.entries[0].truth == pytest.approx(fix.value, rel=1e-3, abs=2e-45)


def test_what_is_still_infinite_is_not_mended(judged: Judge) -> None:
    found = fixed(judged("x ** 0.75", {"x": 0.0}, bounds={"x": (0.0, np.inf)}))
    infinite = [finding for finding in found if finding.code == "GC202"]
    assert {finding.engine for finding in infinite} == {"reference", "torch"}
    for finding in infinite:
        assert finding.fix is None
        assert finding.no_fix == trials.NO_DERIVATIVE


def test_one_entry_without_a_derivative_is_said_to_be_one(judged: Judge) -> None:
    """In forward mode a nan of one entry spoils the others, which have a derivative."""
    both = ("reverse", "forward")
    point = {"p": [0.5, 0.5, 0.0]}
    found = fixed(judged("sum(xlogy(p, p))", point, engines=("torch",), modes=both))
    reasons = {finding.mode: finding.no_fix for finding in found if finding.code == "GC201"}
    assert reasons == {"reverse": trials.NO_DERIVATIVE, "forward": trials.PARTLY_NONE}


def test_a_value_that_is_still_lost_is_not_mended(judged: Judge) -> None:
    found = fixed(judged("-log(-log(x))", {"x": 1.0}, engines=("reference",)))
    assert {finding.code for finding in found if finding.engine} == {"GC203"}
    assert all(finding.fix is None for finding in found)
    (lost,) = (
        f
        for f in fixed(judged("log(exp(x))", {"x": [1.0, 100.0]}, engines=("reference",)))
        if f.code == "GC203"
    )
    assert fix_of(lost).after == "x"


def test_one_that_fails_in_the_engine_is_no_fix(judged: Judge) -> None:
    def spoilt(tried: trials.Tried, answer: Evaluation) -> Evaluation:
        wrong = tried.trial is not None and tried.point == 0
        return replace(answer, output=np.asarray(answer.output) + 1) if wrong else answer

    (finding,) = fixed(judged("1 / exp(x)", {"x": 100.0}, engines=("reference",)), spoilt)
    assert finding.fix is None
    assert finding.no_fix == trials.NONE_HELPS


@pytest.mark.parametrize(
    ("formula", "inputs"),
    first(
        3,
        [
            ("(exp(x) - 1) / x", {"x": 0.001}),
            ("1 - sigmoid(x)", {"x": 20.0}),
            ("exp(x + y) - exp(x) * exp(y)", {"x": 1e-5, "y": 1e-5}),
            (
                "sqrt((a+b+c)/2 * ((a+b+c)/2 - a) * ((a+b+c)/2 - b) * ((a+b+c)/2 - c))",
                {"a": 2.0, "b": 1.0000001, "c": 1.0},
            ),
            ("log(softmax(x))", {"x": [0.3, -0.5, 60.0]}),
        ],
    ),
)
def test_what_changes_nothing_is_no_fix(formula: str, inputs: Any, judged: Judge) -> None:
    found = judged(formula, inputs, engines=("reference",))
    (before,) = (one for one in found.case.evaluations if one.mode == "reverse")

    def without_effect(tried: trials.Tried, answer: Evaluation) -> Evaluation:
        return before if tried.point == 0 else answer

    assert all(one.fix is None for one in fixed(found, without_effect))


def test_others_are_tried_where_the_best_is_no_fix(judged: Judge) -> None:
    def spoilt(tried: trials.Tried, answer: Evaluation) -> Evaluation:
        wrong = (tried.trial, tried.point) == (0, 0)
        return replace(answer, output=np.asarray(answer.output) * 1.5) if wrong else answer

    found = judged("exp(x) - 1", {"x": 1e-9}, engines=("reference",))
    few: dict[trials.Tried, Evaluation] = {}
    more: dict[trials.Tried, Evaluation] = {}
    (best,), (other,) = fixed(found, tried=few), fixed(found, spoilt, more)
    assert {tried.trial for tried in few} == {0}
    assert {tried.trial for tried in more} >= {0, 1}
    assert fix_of(best).after == "expm1(x)"
    assert fix_of(other).after != "expm1(x)"


def test_one_that_makes_a_good_point_bad_is_no_fix(judged: Judge) -> None:
    def spoilt(tried: trials.Tried, answer: Evaluation) -> Evaluation:
        if tried.trial is None:
            return replace(answer, output=np.exp(-np.asarray(0.0)))
        return answer

    found = judged("1 / exp(x)", {"x": 100.0}, engines=("reference",))
    (finding,) = fixed(found, spoilt)
    assert finding.fix is not None  # the original is wrong at these points: nothing is lost


def test_genuine_overflow_is_told_so(judged: Judge) -> None:
    findings = fixed(judged("exp(x) * x", {"x": 100.0}, engines=("reference",)))
    assert findings
    assert all(finding.fix is None for finding in findings)
    assert any("does not fit float32" in finding.no_fix for finding in findings)


def test_where_nothing_helps_that_is_said(judged: Judge) -> None:
    formula = "exp(-x * x / 2) / erfc(x / 1.4142135623730951)"  # erfcx has no stable gradient here
    found = judged(formula, {"x": 15.0}, engines=("reference",))
    findings = [finding for finding in fixed(found) if finding.severity != "note"]
    assert findings
    assert all(finding.fix is None and finding.no_fix for finding in findings)


def test_right_gradients_ask_for_nothing(judged: Judge) -> None:
    found = judged("exp(-x)", {"x": 2.0}, engines=("reference",))
    assert trials.request(found.case, truth_request(found), found.findings) is None
    wrong = judged("floor(x)", {"x": 2.0}, engines=("reference",))
    assert trials.request(wrong.case, truth_request(wrong), wrong.findings) is None


def test_a_zero_that_rounding_explains_is_no_repair(judged: Judge) -> None:
    """Heron's formula for a needle: where(s > 0, sqrt(s), 0) is finite, and has no digit right."""
    area = "sqrt((a+b+c)/2 * ((a+b+c)/2 - a) * ((a+b+c)/2 - b) * ((a+b+c)/2 - c))"
    found = judged(area, {"a": 2.0, "b": 1.0000001, "c": 1.0}, engines=("reference",))
    findings = [f for f in fixed(found) if f.severity == "error"]
    assert findings
    assert all("where" not in fix_of(finding).after for finding in findings)


def test_a_custom_gradient_that_loses_digits_may_be_left_out(judged: Judge) -> None:
    text = """
def square_vjp(u, x):
    return u * ((x + 1) ** 2 - x ** 2 - 1)

@custom_gradient(square_vjp)
def square(x):
    return x ** 2

3 * square(x)
"""
    found = judged(text, {"x": 30000.0}, dtype="float32", engines=("torch",))
    (finding,) = fixed(found)
    fix = fix_of(finding)
    assert (finding.code, fix.after) == ("GC301", "3 * x ** 2")
    assert fix.rules == ("without the custom gradient of square",)
    assert fix.right == fix.points

"""The looks at a layer: what is right takes one, and nothing is asked about it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from gradcheck_cli.checks.small import Whole
from tests.checks.making import bound_layer


def square(slope: float) -> SimpleNamespace:
    """x^2, whose backward gives `slope` times x."""
    return SimpleNamespace(forward=lambda x: x**2, backward=lambda up, x: up * slope * x)


def examined(layer: SimpleNamespace, dtype: str = "float64") -> tuple[Whole, int]:
    """What came of it, and how often it asked whether the layer casts."""
    bound = bound_layer(layer, {"x": [3.0, 1.5]}, dtype=dtype, modes=("reverse",))
    whole = Whole(bound, None, False)
    return whole, len(list(whole.steps()))


def test_what_is_right_is_not_doubted() -> None:
    for dtype in ("float32", "float64"):
        whole, doubts = examined(square(2.0), dtype)
        assert doubts == 0
        assert not whole.suspected
        assert {check.status for check in whole.checks} == {"passed"}


def test_a_wrong_gradient_is_doubted_before_it_is_told() -> None:
    whole, doubts = examined(square(3.0))
    assert doubts >= 1
    assert whole.suspected
    assert [finding.code for finding in whole.findings] == ["GC101"]


def test_in_the_highest_precision_float32_tells_an_error_from_rounding() -> None:
    whole, _ = examined(square(3.0))
    (again,) = whole.case.wide.values()
    assert again.dtype == "float32"


def test_elsewhere_float64_does_and_was_there_from_the_first_look() -> None:
    whole, _ = examined(square(3.0), "float32")
    (again,) = whole.case.wide.values()
    assert again.dtype == "float64"


def test_where_it_runs_in_no_other_precision_all_is_rounded_anew() -> None:
    layer = bound_layer(square(3.0), {"x": [3.0, 1.5]}, modes=("reverse",))
    whole = Whole(replace(layer, bind=lambda dtype, values: None), None, False)
    list(whole.steps())
    (again,) = whole.case.wide.values()
    gradient = again.gradients["x"].values
    assert again.dtype == "float64"
    assert gradient is not None
    assert np.allclose(gradient, np.diag([9.0, 4.5]))
    assert not np.array_equal(gradient, np.diag([9.0, 4.5]))  # a few ulps away

"""What people are shown of the numbers that were computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.readings import readings_of
from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Evaluation, Failure, Gradient, Projection
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from tests.conftest import spec_of

RAN = Evaluation(
    "torch",
    "float32",
    "float32",
    "reverse",
    output=np.array([1.0, 4.0]),
    gradients={"x": Gradient(np.array([[2.0, 0.0], [0.0, 4.0]])), "y": Gradient(None)},
)
CASE = Case(
    spec=spec_of("x ** 2 + y", {"x": [1.0, 2.0], "y": 0.0}),
    point=None,
    dtype="float32",
    values={"x": np.array([1.0, 2.0]), "y": np.array(0.0)},
    projections={"reverse": Projection(), "reverse-over-reverse": Projection()},
    evaluations=(RAN,),
    truth=None,
)


def test_output_and_gradients_stand_in_their_shapes() -> None:
    (reading,) = readings_of(CASE)
    assert (reading.engine, reading.mode, reading.output) == ("torch", "reverse", [1.0, 4.0])
    assert reading.gradients == {"x": [[2.0, 0.0], [0.0, 4.0]], "y": None}


def test_products_are_no_gradients() -> None:
    rows = {"reverse": Projection(rows=np.ones((1, 2)))}
    (reading,) = readings_of(replace(CASE, projections=rows))
    assert reading.gradients == {}


def test_what_failed_and_second_derivatives_have_no_reading() -> None:
    failed = replace(RAN, failure=Failure("raised", "no"))
    second = replace(RAN, mode="reverse-over-reverse")
    assert readings_of(replace(CASE, evaluations=(failed, second))) == ()


def test_each_entry_is_compared_where_it_has_a_derivative() -> None:
    off = np.array([[2.0, 0.0], [0.0, 3.0]])
    block = TruthBlock.of(off, np.zeros((2, 2)), kind=np.array([[0, 0], [int(PointKind.KINK), 0]]))
    block = replace(block, value=np.array([[2.0, 0.0], [5.0, 4.0]]))
    truth = Truth("float32", np.zeros(2), np.zeros(2), {("reverse", "x"): block})
    ran = replace(RAN, gradients={"x": Gradient(off), "y": Gradient(None)})
    (reading,) = readings_of(replace(CASE, evaluations=(ran,), truth=truth))
    (compared,) = reading.compared.values()
    assert (compared.output_shape, compared.input_shape) == ((2,), (2,))
    np.testing.assert_array_equal(compared.computed, off)
    np.testing.assert_array_equal(compared.truth, [[2, 0], [np.nan, 4]])
    np.testing.assert_array_equal(compared.ulps, [[0, 0], [np.nan, 2.0**21]])

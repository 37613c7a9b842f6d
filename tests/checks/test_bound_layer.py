"""A layer in the dtype that is judged, in the highest precision, and elsewhere."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from gradcheck_cli.checks.protocol import CastsRequest
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.domain.truth import Truth
from tests.checks.making import bound_layer

SQUARE = SimpleNamespace(forward=lambda x: x**2, backward=lambda up, x: up * 2 * x)
TRUTH = Truth("float32", np.array([9.0]), np.zeros(1), {})


def test_it_is_judged_in_one_dtype_and_known_in_another() -> None:
    layer = bound_layer(SQUARE, {"x": [3.0]}, dtype="float32", domain=(0.0, 4.0))
    assert (layer.narrow.dtype, layer.highest.dtype) == ("float32", "float64")
    assert layer.bounds == {"x": (0.0, 4.0)}
    assert layer.problem.point_number is None
    several = replace(layer.problem.spec, pointed=True)
    there = replace(layer, problem=replace(layer.problem, spec=several))
    assert there.problem.point_number == 0


def test_elsewhere_it_has_other_values_and_its_own_again() -> None:
    layer = bound_layer(SQUARE, {"x": [3.0]})
    with layer.at_values("float64", {"x": np.array([5.0])}) as there:
        assert there is not None
        assert there.value({}) == 25.0
    assert layer.narrow.value({}) == 9.0


def test_what_does_not_run_elsewhere_is_not_there() -> None:
    layer = replace(bound_layer(SQUARE, {"x": [3.0]}), bind=lambda dtype, values: None)
    with layer.at_values("float32", {}) as there:
        assert there is None


def test_a_case_has_the_leaves_and_what_was_named() -> None:
    layer = bound_layer(SQUARE, {"x": [3.0]}, dtype="float32")
    named = replace(layer, problem=replace(layer.problem, named=True, named_modes=True))
    case = named.case({"reverse": Projection()}, (), TRUTH, {})
    assert (case.dtype, case.spec.wrt) == ("float32", ("x",))
    assert case.named == {"numpy"}
    assert case.named_modes == {"reverse", "forward"}
    assert layer.case({"reverse": Projection()}, (), TRUTH, {}).named == frozenset()


def test_a_finding_stands_where_the_layer_stands() -> None:
    layer = bound_layer(SQUARE, {"x": [3.0]})
    found = layer.finding(Codes.WRONG_GRADIENT, "wrong", "reverse")
    assert (found.code, found.severity, found.engine) == ("GC101", "error", "numpy")
    assert (found.dtype, found.mode) == ("float64", "reverse")
    assert found.span == layer.problem.implementation.span


def test_a_doubt_asks_whether_it_casts() -> None:
    ((ask,),) = bound_layer(SQUARE, {"x": [3.0]}).doubt()
    assert (ask.engine, ask.question) == ("numpy", CastsRequest())

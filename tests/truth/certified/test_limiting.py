"""Kinks that show along no axis: between the limits of the gradient everything is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.domain.truth import PointKind
from tests.conftest import truth_of
from tests.truth.test_subdifferential import within

MIDDLE = [([1 / 3, 1 / 3, 1 / 3], True), ([0, 1, 0], True), ([0.5, 0, 0.5], True)]
OUTSIDE = [([0, 0, 0], False), ([1, 1, 0], False), ([-0.5, 1, 0.5], False)]


def accepts(formula: str, gradient: list[float]) -> bool:
    truth = truth_of(formula, {"x": np.zeros(3)})
    block = truth.blocks["reverse", "x"]
    assert np.all(block.kind == PointKind.KINK)
    between = np.all((block.lower <= gradient) & (gradient <= block.upper))
    return bool(between and within(truth.hulls["reverse"], x=gradient))


@pytest.mark.parametrize(("gradient", "right"), MIDDLE + OUTSIDE)
@pytest.mark.parametrize(
    "formula", ["median(x)", "sort(x)[1]", "maximum(minimum(x[0], x[1]), x[2])"]
)
def test_a_tie_of_three_has_the_hull_of_its_elements(
    formula: str, gradient: list[float], right: bool
) -> None:
    assert accepts(formula, gradient) is right


ORDER_STATISTICS = {
    "median(x) + max(x) - sort(x)[3]": [1, 1, -1, 0, 0],
    "2 * median(x) - min(x)": [2, -1, 0, 0, 0],
    "3 * sort(x)[1] - sort(x)[3] + 2 * max(x)": [3, -1, 2, 0, 0],
    "max(x) - min(x)": [1, -1, 0, 0, 0],
    "max(x) + sort(x)[3]": [1, 1, 0, 0, 0],
}


@pytest.mark.parametrize("formula", ORDER_STATISTICS)
def test_a_sum_of_order_statistics_has_the_hull_of_all_orders(formula: str) -> None:
    """There are more limits than samples, and some of these functions bend up along every axis
    although they are not convex."""
    limit = np.array(ORDER_STATISTICS[formula], np.float64)
    hulls = truth_of(formula, {"x": np.full(5, 2.0)}).hulls["reverse"]
    rng = np.random.default_rng(0)
    for shares in rng.dirichlet(np.full(4, 0.5), size=16):
        orders = [rng.permutation(limit) for _ in shares]
        assert within(hulls, x=list(shares @ orders))
        assert not within(hulls, x=list(shares @ orders + 0.25))


def test_terms_whose_kinks_cancel_along_one_axis() -> None:
    """Of relu(a) - relu(b) an engine adds up one slope of each."""
    truth = truth_of("relu(x + y) - relu(x - y)", {"x": np.array(0.0), "y": np.array(0.0)})
    block = truth.blocks["reverse", "y"]
    assert (block.lower, block.upper) == (0.0, 2.0)
    assert within(truth.hulls["reverse"], x=[0.0], y=[0.0])
    assert not within(truth.hulls["reverse"], x=[1.0], y=[2.0])


def test_what_has_one_limit_is_smooth() -> None:
    block = truth_of("sum(sort(x) * sort(x))", {"x": np.array([1.0, 1.0, 1.0])}).blocks[
        "reverse", "x"
    ]
    assert np.all(block.kind == PointKind.SMOOTH)
    assert np.allclose(block.value, 2.0)


def test_a_partial_derivative_beside_a_vertical_tangent_stays_what_it_is() -> None:
    """Next to a steep point limits may be anything, and bound nothing."""
    inputs = {"p": np.array([0.0]), "t": np.array([0.0])}
    truth = truth_of("binary_cross_entropy(p, t)", inputs)
    assert truth.blocks["reverse", "t"].kind == PointKind.UNDEFINED
    assert truth.blocks["reverse", "p"].kind == PointKind.SMOOTH
    assert truth.blocks["reverse", "p"].value == pytest.approx(1.0)


def test_an_engine_outside_of_the_hull_is_wrong(judged: Callable[..., Any]) -> None:
    """What adds up to 0 is no gradient of median(t, t, t) = t."""
    rule = """
def zero_vjp(u, x):
    return 0 * x

@custom_gradient(zero_vjp)
def middle(x):
    return median(x)

middle(x)
"""
    made = judged(rule.strip(), {"x": np.zeros(3)})
    assert made.of("GC101")
    assert not judged("median(x)", {"x": np.zeros(3)}).of("GC101")


def test_where_the_gradient_is_a_convention_its_derivatives_bound_nothing() -> None:
    mode = "reverse-over-reverse"
    truth = truth_of("median(x) * sum(x)", {"x": np.zeros(3)}, modes=(mode,))
    block = truth.blocks[mode, "x.x"]
    assert np.all(block.kind == PointKind.KINK)
    assert np.all(np.isinf(block.lower) & np.isinf(block.upper))


def test_directions_of_matrices_cross_the_kinks_of_their_entries() -> None:
    mode: Mode = "reverse-over-reverse"
    shape = (2, 2)
    columns = {name: np.arange(1.0, 13.0).reshape(3, *shape) for name in "xy"}
    truth = truth_of(
        "sum(abs(x) * y)",
        {"x": np.zeros(shape), "y": np.ones(shape)},
        projections={mode: Projection(columns=columns)},
    )
    assert truth.blocks[mode, "y.x"].kind.shape == (4, 3)
    assert np.all(truth.blocks[mode, "y.x"].kind == PointKind.KINK)
    assert np.all(truth.blocks[mode, "y.y"].kind == PointKind.SMOOTH)


@pytest.mark.parametrize(
    "formula",
    ["norm(x) ** 2", "norm(x) ** 1.5", "max(x) ** 2 + x[0]", "x[1] * norm(x)", "abs(sum(x)) ** 3"],
)
def test_limits_that_vanish_at_the_point_are_all_zero(formula: str) -> None:
    """The function is smooth, however its gradient is made of those of kinks."""
    block = truth_of(formula, {"x": np.zeros(3)}).blocks["reverse", "x"]
    assert np.all(block.kind == PointKind.SMOOTH)
    assert np.allclose(block.value, [[1.0, 0.0, 0.0]] if "x[0]" in formula else 0.0, atol=1e-12)


@pytest.mark.parametrize("formula", ["norm(x)", "norm(x) + norm(x) ** 2", "x[0] + max(x)"])
def test_limits_that_stay_are_a_kink(formula: str) -> None:
    block = truth_of(formula, {"x": np.zeros(3)}).blocks["reverse", "x"]
    assert np.all(block.kind == PointKind.KINK)

"""The reference engine's float64 derivatives of the rounded problem."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.gradients import Float64Gradients, block_shapes, float64_gradients
from tests.conftest import array, loaded, program_of


def request_of(
    formula: str,
    inputs: dict,
    projections: dict[Mode, Projection],
    dtype: str = "float64",
    wrt: tuple[str, ...] | None = None,
) -> TruthRequest:
    arrays = {name: array(value) for name, value in inputs.items()}
    values = {n: FORMATS[dtype].round(a) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    floats = tuple(name for name, a in arrays.items() if a.dtype.kind == "f")
    return TruthRequest(program_of(formula, inputs), values, {}, wrt or floats, dtype, projections)


def gradients_of(*args, **keywords) -> Float64Gradients:
    engine = loaded("reference")
    assert isinstance(engine, ReferenceEngine)
    return float64_gradients(request_of(*args, **keywords), engine)


BOTH: dict[Mode, Projection] = {"reverse": Projection(), "forward": Projection()}


def test_jacobian_in_both_modes() -> None:
    x = np.array([0.5, 1.0, 2.0])
    found = gradients_of("sin(x) * y", {"x": x, "y": 3.0}, BOTH)
    for mode in BOTH:
        np.testing.assert_allclose(found.true[mode, "x"], np.diag(3 * np.cos(x)), rtol=1e-15)
        np.testing.assert_allclose(found.true[mode, "y"], np.sin(x)[:, None], rtol=1e-15)
    assert found.stated["reverse", "x"] is not None
    assert found.reason == ""


def test_inputs_and_constants_are_those_of_the_dtype() -> None:
    found = gradients_of("x * x * 0.1", {"x": 0.3}, {"reverse": Projection()}, dtype="float32")
    x, tenth = np.float64(np.float32(0.3)), np.float64(np.float32(0.1))
    assert found.true["reverse", "x"][0, 0] == pytest.approx(2 * x * tenth, rel=1e-15)


def test_custom_gradient_is_stated_but_not_true() -> None:
    formula = """
def f_vjp(g, x):
    return -g * cos(x)

@custom_gradient(f_vjp)
def f(x):
    return sin(x)

f(x)
"""
    found = gradients_of(formula, {"x": 0.5}, {"reverse": Projection()})
    assert found.true["reverse", "x"][0, 0] == pytest.approx(np.cos(0.5))
    assert found.stated["reverse", "x"][0, 0] == pytest.approx(-np.cos(0.5))


def test_input_that_plays_no_part_has_zeros() -> None:
    found = gradients_of("x * x", {"x": 2.0, "y": 3.0}, BOTH)
    assert found.true["reverse", "y"].tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("projection", "shape"),
    [
        (Projection(), (6, 3)),
        (Projection(rows=np.ones((4, 2, 3))), (4, 3)),
        (Projection(columns={"x": np.ones((5, 3))}), (6, 5)),
    ],
)
def test_shapes_of_blocks(projection: Projection, shape: tuple[int, int]) -> None:
    mode: Mode = "reverse" if projection.rows is not None else "forward"
    request = request_of("x * y", {"x": np.ones(3), "y": np.ones((2, 1))}, {mode: projection})
    assert block_shapes(request, mode)["x"] == shape


def test_hessian_blocks() -> None:
    second: dict[Mode, Projection] = {
        "reverse-over-reverse": Projection(),
        "forward-over-reverse": Projection(),
    }
    found = gradients_of("sum(x * x) * y", {"x": np.array([1.0, 2.0]), "y": 3.0}, second)
    for mode in second:
        assert found.true[mode, "x.x"].tolist() == [[6, 0], [0, 6]]
        assert found.true[mode, "x.y"].tolist() == [[2], [4]]
        assert found.true[mode, "y.x"].tolist() == [[2, 4]]
        assert found.true[mode, "y.y"].tolist() == [[0]]


def test_spread_is_the_distance_between_the_modes() -> None:
    x = np.array([1e8, 1.0, -1e8])
    found = gradients_of("sum(x) ** 3 / sum(x)", {"x": x}, BOTH)
    apart = np.abs(found.true["reverse", "x"] - found.true["forward", "x"])
    assert np.all(found.spread["reverse", "x"] >= apart)
    assert np.all(found.spread["reverse", "x"] > 0)


def test_modes_with_directions_of_their_own_are_not_compared() -> None:
    projections: dict[Mode, Projection] = {
        "reverse": Projection(rows=np.array([[1.0, 2.0]])),
        "forward": Projection(columns={"x": np.array([[3.0, 1.0]])}),
    }
    found = gradients_of("x * x", {"x": np.array([1.0, 2.0])}, projections)
    assert np.all(found.spread["reverse", "x"] < 1e-14)

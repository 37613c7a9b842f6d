"""Plain difference quotients: the numbers of the textbook, with the errors of the textbook."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import (
    Difference,
    Evaluation,
    Problem,
    Projection,
    Scheme,
    TrainingProblem,
)
from gradcheck_cli.engines.finite_difference import FiniteDifferenceEngine
from tests.conftest import program_of


def quotient(
    formula: str,
    difference: Difference,
    dtype: str = "float64",
    projection: Projection | None = None,
    **values: object,
) -> Evaluation:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    problem = Problem(
        program_of(formula, arrays),
        arrays,
        tuple(arrays),
        dtype,
        dtype,
        "forward",
        projection or Projection(),
        difference=difference,
    )
    engine = FiniteDifferenceEngine()
    engine.load()
    return engine.evaluate(problem)


@pytest.mark.parametrize(("scheme", "slope"), [("forward", 6.25), ("central", 6.0)])
def test_the_quotient_is_that_of_the_scheme_and_the_step(scheme: Scheme, slope: float) -> None:
    found = quotient("x**2", Difference(scheme, 0.25), x=3.0)  # all of it is exact
    np.testing.assert_array_equal(found.gradients["x"].values, [[slope]])
    assert found.approximation == f"{scheme} difference, h = 0.25"


def test_jacobians_and_directions() -> None:
    x, w = np.array([1.0, 2.0]), np.array([[0.5, -1.0], [2.0, 0.25]])
    found = quotient("x @ w", Difference("central", 0.5), x=x, w=w)
    np.testing.assert_array_equal(found.gradients["x"].values, w.T)
    assert found.gradients["w"].values.shape == (2, 4)
    assert found.forward == 1 + 2 * (2 + 4)
    columns = Projection(columns={"x": np.array([[1.0, -2.0]]), "w": np.ones((1, 2, 2))})
    along = quotient("x @ w", Difference("central", 0.5), projection=columns, x=x, w=w)
    np.testing.assert_array_equal(along.gradients["x"].values, w.T @ [[1.0], [-2.0]])


def test_it_is_computed_in_the_dtype() -> None:
    found = quotient("exp(x)", Difference("forward", 1e-4), dtype="float16", x=1.0)
    np.testing.assert_array_equal(found.gradients["x"].values, [[0.0]])  # 1 + 1e-4 is 1


@pytest.mark.parametrize(("scheme", "order"), [("forward", 1 / 2), ("central", 2 / 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_usual_step_leaves_the_digits_that_it_can(
    scheme: Scheme, order: float, dtype: str
) -> None:
    x = 1000.5
    found = quotient("sin(x / 1000)", Difference(scheme), dtype=dtype, x=x)
    eps = np.finfo(dtype).eps
    error = abs(found.gradients["x"].values[0, 0] * 1000 - np.cos(1.0005))
    assert error < 20 * eps**order  # rounding and truncation of a function of size 1


def test_every_entry_has_the_usual_step_of_its_own_size() -> None:
    x = np.array([0.5, 4096.0])
    found = quotient("sum(sin(x / 4096))", Difference("forward"), dtype="float64", x=x)
    assert found.approximation == "forward difference, h = 1.49e-08 to 6.1e-05"
    along = Projection(columns={"x": np.ones((1, 2))})
    found = quotient("sum(x)", Difference("forward"), projection=along, x=x)
    assert found.approximation == "forward difference, h = 6.1e-05"


def test_it_trains_nothing() -> None:
    values = {"x": np.array(1.0)}
    problem = TrainingProblem(
        program_of("x**2", values), values, ("x",), 0.1, 2, "float64", "float64"
    )
    failure = FiniteDifferenceEngine().train(problem).failure
    assert failure is not None
    assert failure.kind == "unsupported"

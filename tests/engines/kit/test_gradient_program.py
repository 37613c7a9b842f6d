"""The program of a gradient holds for other numbers, and for other dtypes than that of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem, Projection
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.gradient_program import engine_program

X = np.array([0.5, 2.0])


@pytest.mark.parametrize("engine", ["reference", "torch", "tensorflow", "jax"])
@pytest.mark.parametrize(
    ("model", "op", "number"),
    [("sum(x * log(0.3))", "log", np.log(0.3)), ("sum(x - exp(0.7))", "exp", np.exp(0.7))],
)
def test_what_is_computed_from_constants_is_part_of_it(
    engine: str,
    model: str,
    op: str,
    number: float,
    engine_called: Callable[[str], Engine],
    program: Callable[..., Any],
) -> None:
    """log(0.3) rounds in another way in each dtype, so an array of its float64 numbers is not
    enough."""
    made = program(model, {"x": X})
    problem = Problem(
        made, {"x": X}, ("x",), "float64", "float64", "reverse", Projection(rows=np.ones(1))
    )
    found = engine_program(engine_called(engine), problem)
    assert found.program is not None, found.reason
    assert op in [node.op for node in found.program.nodes]
    assert not any(np.any(np.isclose(array, number)) for array in found.constants.values())


@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_what_every_dtype_computes_exactly_stays_an_array(
    engine: str, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    made = program("sum(x + 3 * eye(2))", {"x": X})
    rows = Projection(rows=np.ones(1))
    problem = Problem(made, {"x": X}, ("x",), "float64", "float64", "reverse", rows)
    found = engine_program(engine_called(engine), problem)
    assert found.program is not None, found.reason
    assert "multiply" not in [node.op for node in found.program.nodes]
    assert any(np.array_equal(array, 3 * np.eye(2)) for array in found.constants.values())

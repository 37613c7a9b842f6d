"""A custom gradient is opaque to SymPy's derivative, which is the rule's, and is written out where
numbers are put in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem, Projection
from gradcheck_cli.engines.errors import NodeFault
from gradcheck_cli.engines.symbolic.custom_gradients import written_out
from gradcheck_cli.engines.symbolic.derive import differentiated
from tests.conftest import array, loaded, program_of

HALF = """
def rule(up, x, y):
    return up * 0.5 * y, up * x
@custom_gradient(rule)
def times(x, y):
    return x * y
"""


def gradients(formula: str, **values: Any) -> dict[str, list[float]]:
    arrays = {name: array(value) for name, value in values.items()}
    program = program_of(formula, arrays)
    rows = Projection(rows=np.ones((1, *program.result.shape)))
    wrt = tuple(arrays)
    problem = Problem(program, arrays, wrt, "float64", "float64", "reverse", rows)
    found = loaded("symbolic").evaluate(problem)
    assert found.failure is None, found.failure
    return {n: g.values.ravel().tolist() for n, g in found.gradients.items()}  # type: ignore[union-attr]


def test_the_derivative_is_that_of_the_rule() -> None:
    assert gradients(HALF + "times(x, y)", x=3.0, y=5.0) == {"x": [2.5], "y": [3.0]}


def test_so_it_is_inside_of_other_operations_and_of_itself() -> None:
    outer = gradients(HALF + "times(times(x, y), y) ** 2", x=3.0, y=5.0)
    # y * y * x = 75; by x: 2 * 75 * (0.5 y) (0.5 y), by y: 2 * 75 * (x y + 0.5 y x)
    assert outer["x"] == pytest.approx([937.5])
    assert outer["y"] == pytest.approx([150 * (15 + 7.5)])


def test_entries_of_arrays_each_have_their_own() -> None:
    found = gradients(HALF + "times(x, y)", x=[1.0, 2.0], y=[3.0, 4.0])
    assert found == {"x": [1.5, 2.0], "y": [1.0, 2.0]}


def test_what_is_shown_has_the_formula_in_its_place() -> None:
    arrays = {"x": array(3.0), "y": array(5.0)}
    formulas = differentiated(program_of(HALF + "times(x, y)", arrays), arrays, ["x"], 1, 5.0)
    assert str(formulas.output[()]) == "times(x, y)"
    assert str(written_out(formulas.output[()])) == "x*y"
    assert "times" not in str(formulas.gradients["x"][()])


def test_a_rule_of_another_shape_is_a_fault_of_its_node() -> None:
    rule = "def r(up, x):\n    return sum(up)\n"
    text = rule + "@custom_gradient(r)\ndef f(x):\n    return 2 * x\nf(x)"
    arrays = {"x": array([1.0, 2.0])}
    with pytest.raises(NodeFault):
        differentiated(program_of(text, arrays), arrays, ["x"], 1, 5.0)

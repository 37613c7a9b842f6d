"""Derivatives of rows as programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Mode, Problem
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.program import Program
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.fixes.custom_gradients import NotStated, stable
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.formula.printing import statements
from tests.conftest import array, loaded, program_of

SPAN = Span(1, 1, 1, 1)

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tanh(x)", {"x": 0.7}),
    ("sigmoid(x)", {"x": [0.7, -3.0]}),
    ("atan2(a, b)", {"a": [0.7, -0.2], "b": 0.4}),
    ("hypot(1, x)", {"x": 0.7}),
    ("a / b", {"a": [[0.7], [0.2]], "b": [0.4, 0.5, 0.6]}),
    ("expm1(x)", {"x": -3.0}),
    ("asinh(x)", {"x": 3.0}),
    ("logsumexp(x, axis=0)", {"x": [[0.7, 0.2], [0.1, 0.3]]}),
    ("norm(x)", {"x": [0.7, 0.2, 0.1]}),
    ("var(x, axis=-1)", {"x": [[0.7, 0.2], [0.1, 0.3]]}),
    ("x ** 2.5", {"x": 0.7}),
    ("erfinv(x)", {"x": 0.7}),
    ("logit(x)", {"x": 0.7}),
    ("ndtr(x)", {"x": 0.7}),
    ("acos(x)", {"x": 0.7}),
]


def stated(program: Program) -> Program:
    forest = ExprPool(program)
    return forest.to_program(stable(forest, forest.output), SPAN)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(("formula", "values"), CALLS, ids=lambda part: str(part)[:20])
def test_the_stated_derivative_is_that_of_the_row(
    formula: str, values: dict[str, Any], mode: Mode
) -> None:
    program = program_of(formula, values)
    made = stated(program)
    arrays = {name: array(value) for name, value in values.items()}
    engine = loaded("reference")
    one, two = (
        engine.evaluate(Problem(each, arrays, tuple(values), "float64", "float64", mode))
        for each in (program, made)
    )
    assert two.failure is None
    np.testing.assert_allclose(two.output, one.output, rtol=1e-14)
    for name, gradient in one.gradients.items():
        np.testing.assert_allclose(two.gradients[name].values, gradient.values, rtol=1e-13)


def test_it_is_a_formula_that_can_be_read_back() -> None:
    text = statements(stated(program_of("tanh(x)", {"x": 0.7})))
    assert "@custom_gradient(stable_tanh_vjp, stable_tanh_jvp)" in text
    assert parse(text, inputs={"x": Argument(())}).program is not None


@pytest.mark.parametrize("formula", ["x + 1", "-x", "x * 3", "floor(x)"])
def test_where_nothing_can_go_wrong_nothing_is_stated(formula: str) -> None:
    with pytest.raises(NotStated):
        stated(program_of(formula, {"x": 0.7}))

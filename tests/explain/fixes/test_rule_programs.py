"""The vjp and the jvp of a program, as programs."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.explain.fixes.rule_programs import (
    RuleProgram,
    forward_program,
    reverse_program,
    tangent_of,
    upstream_of,
)
from gradcheck_cli.formula.printing import expression
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of

X = np.array([0.3, -1.2, 2.0])


def reverse(formula: str) -> RuleProgram:
    found = reverse_program(program_of(formula, {"x": X}), {"x": X}, "x")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("formula", "vjp"),
    [
        ("x ** 2", "upstream * 2 * x"),
        ("cos(x)", "-(upstream * sin(x))"),
        ("tanh(x)", "upstream * (1 - tanh(x) ** 2)"),
        ("sigmoid(x)", "upstream * sigmoid(x) * (1 - sigmoid(x))"),
        ("erf(x)", "upstream * 1.1283791670955126 * exp(-x * x)"),
        ("softmax(x)", "softmax(x) * (upstream - sum(upstream * softmax(x)))"),
        ("sum(exp(x))", "upstream * exp(x)"),
        ("mean(x * x)", "upstream * 2 * x / 3"),
    ],
)
def test_the_vjp_is_a_formula(formula: str, vjp: str) -> None:
    program = program_of(formula, {"x": X})
    found = reverse(formula)
    upstream = np.linspace(1.0, 2.0, 3)[: int(np.prod(program.result.shape))]
    values = {"x": X, upstream_of(0): upstream.reshape(program.result.shape)}
    right = PlainFunction(program_of(vjp, values), "float64")(values)
    given = PlainFunction(found.program, "float64")({**found.constants, **values})
    np.testing.assert_allclose(given, right, rtol=1e-12)


def test_what_broadcasting_repeats_is_not_written() -> None:
    found = reverse("sum(exp(x))")
    assert not found.has_shapes
    assert expression(found.program, found.program.output) == "upstream * exp(x)"


def test_it_says_where_it_has_sizes_and_shapes() -> None:
    assert reverse("mean(x * x)").has_sizes
    assert not reverse("sum(x * x)").has_sizes
    assert reverse("sum(x)").has_shapes


def test_there_is_none_where_nothing_depends_on_the_input() -> None:
    program = program_of("x * 2", {"x": X, "w": X})
    assert reverse_program(program, {"x": X, "w": X}, "w") is None


def test_the_jvp_is_a_formula_of_the_tangents() -> None:
    program = program_of("x * sin(w)", {"x": X, "w": X})
    found = forward_program(program, {"x": X, "w": X}, ["x", "w"])
    assert found is not None
    values = {"x": X, "w": 2 * X, tangent_of("x"): X + 1, tangent_of("w"): X - 1}
    given = PlainFunction(found.program, "float64")({**found.constants, **values})
    np.testing.assert_allclose(given, (X + 1) * np.sin(2 * X) + X * np.cos(2 * X) * (X - 1))

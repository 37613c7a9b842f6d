"""The summands of a gradient, one for each use of the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.evaluation import Mode, Projection
from gradcheck_cli.explain.blame.summands import terms_of
from tests.conftest import array, spec_of

X = np.array([0.5, 2.0])


def made(formula: str, inputs: Mapping[str, Any], mode: Mode = "reverse") -> Case:
    values = {name: array(value) for name, value in inputs.items()}
    spec = spec_of(formula.strip(), values)
    return Case(spec, None, "float64", values, {mode: Projection()}, (), None)


def terms(formula: str, mode: Mode = "reverse", **inputs: Any) -> dict[str, list[Any]]:
    found = terms_of(made(formula, inputs, mode), mode, "x")
    return {text: np.round(term, 12).tolist() for text, term in found}


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("sum(x ** 2) + sum(3 * x)", {"x ** 2": [[1.0, 4.0]], "3 * x": [[3.0, 3.0]]}),
        # a variable of its own counts where it is used
        ("y = 2 * x\nsum(y * y)", {}),  # x is used once
        ("y = 2 * x\nsum(y) * sum(x)", {"2 * x": [[5.0, 5.0]], "sum(x)": [[5.0, 5.0]]}),
        ("sum(x)", {}),
        # a use without a share is none
        ("sum(5 * x) + sum(stop_gradient(x))", {"5 * x": [[5.0, 5.0]]}),
        # every output has its row
        ("x ** 2 + 3 * x", {"x ** 2": [[1, 0], [0, 4]], "3 * x": [[3, 0], [0, 3]]}),
    ],
)
def test_terms(formula: str, expected: Mapping[str, Any], mode: Mode) -> None:
    assert terms(formula, mode, x=X) == expected


def test_the_same_input_twice_in_one_operation() -> None:
    found = terms_of(made("x * x", {"x": 3.0}), "reverse", "x")
    assert [(text, term.tolist()) for text, term in found] == [
        ("x * x", [[3.0]]),
        ("x * x", [[3.0]]),
    ]


def test_terms_add_up_to_the_gradient() -> None:
    formula = "a = sin(x) * y\nb = exp(x / 4)\nsum(a * b + x)"
    total = sum(term for _, term in terms_of(made(formula, {"x": X, "y": 3.0}), "reverse", "x"))
    slope = np.exp(X / 4) * (3 * np.cos(X) + 3 * np.sin(X) / 4) + 1
    # a handful of roundings, and one digit lost where the terms cancel
    np.testing.assert_allclose(total, slope[None], rtol=1e-14)


def test_other_inputs_keep_their_values() -> None:
    assert terms("x * y + 2 * x", x=1.0, y=7.0) == {"x * y": [[7.0]], "2 * x": [[2.0]]}


def test_stated_derivatives_are_not_followed() -> None:
    formula = """
def f_vjp(u, x):
    return -u

@custom_gradient(f_vjp)
def f(x):
    return 2 * x

f(x) + 3 * x
"""
    assert terms(formula, x=1.0) == {"2 * x": [[2.0]], "3 * x": [[3.0]]}


def test_more_uses_than_anybody_reads_are_not_told_apart() -> None:
    assert terms(" + ".join(f"{i} * x" for i in range(1, 17)), x=1.0) != {}
    assert terms(" + ".join(f"{i} * x" for i in range(1, 18)), x=1.0) == {}


def test_directions_have_no_terms() -> None:
    case = made("x ** 2 + 3 * x", {"x": X}, "forward")
    part = Projection(columns={"x": np.ones((1, 2))})
    assert terms_of(replace(case, projections={"forward": part}), "forward", "x") == ()

"""Infinities that a pole made and another operation swallowed."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.truth.certified.cancelled_poles import swallowed_poles
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import array, program_of


def mask_of(formula: str, **inputs) -> list:
    values = {name: array(value) for name, value in inputs.items()}
    program = program_of(formula, values)
    return swallowed_poles(program, PlainFunction(program, "float64").nodes(values)).tolist()


@pytest.mark.parametrize(
    "formula",
    [
        "1 / log1p(expm1(-x))",
        "exp(log(exp(-x)))",
        "tanh(1 / exp(-x))",
        "sigmoid(x / (x - x))",
        "1 / (x - x) ** -2",
    ],
)
def test_swallowed_pole_is_noticed(formula: str) -> None:
    assert mask_of(formula, x=800.0) is True


@pytest.mark.parametrize(
    "formula",
    [
        "sin(x)",
        "exp(x)",  # infinite itself
        "log(x - x)",
        "1 / exp(x)",  # no pole: too large a number for float64, and its inverse too small
        "tanh(exp(x))",
        "where(x > 1000, log(x - x), x)",
        "maximum(log(x - x), 2.0)",
        "where(x > 0, x, log(-x))",
        "exp(where(x > 0, -inf, x))",  # the infinity is the user's own
    ],
)
def test_infinity_that_plays_no_part_is_none(formula: str) -> None:
    assert mask_of(formula, x=800.0) is False


def test_only_the_entries_that_depend_on_it() -> None:
    x, b = np.array([0.5, 0.0, 2.0]), [False, True, False]
    assert mask_of("1 / log(x)", x=x) == b
    assert mask_of("1 / log(x) + y", x=x, y=np.zeros((2, 1))) == [b, b]
    assert mask_of("sum(1 / log(x))", x=x) is True
    assert mask_of("(1 / log(x))[1]", x=x) is True
    assert mask_of("(1 / log(x))[::-1][:1]", x=x) == [False]
    assert mask_of("take(1 / log(x), k)", x=x, k=np.array([1, 0, 1, 1])) == [
        True,
        False,
        True,
        True,
    ]
    assert mask_of("take(1 / log(x), k)", x=x, k=np.array([0, 2])) == [False, False]
    assert mask_of("where(x < 1, 1 / log(x), x)", x=x) == b
    assert mask_of("where(x < 1, x, 1 / log(x))", x=x) == [False, False, False]
    assert mask_of("maximum(1 / log(x), -9.0)", x=x) == b
    square = np.array([[0.5, 0.0], [2.0, 3.0]])
    assert np.all(mask_of("(1 / log(x)) @ x", x=square))


def test_a_trace_depends_on_its_diagonal() -> None:
    made = mask_of("trace(tanh(1 / x))", x=[[0.0, 1.0], [1.0, 1.0]])
    assert made is True
    assert mask_of("trace(tanh(1 / x))", x=[[1.0, 0.0], [1.0, 1.0]]) is False


def test_infinite_input_is_no_pole() -> None:
    assert mask_of("tanh(x)", x=np.inf) is False
    assert mask_of("1 / log(x)", x=np.inf) is False

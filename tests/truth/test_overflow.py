"""Infinities that an operation made and another one swallowed."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.truth.overflow import absorbed
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import array, program_of


def mask_of(formula: str, **inputs) -> list:
    values = {name: array(value) for name, value in inputs.items()}
    program = program_of(formula, values)
    return absorbed(program, PlainFunction(program, "float64").nodes(values)).tolist()


@pytest.mark.parametrize(
    "formula", ["1 / exp(x)", "tanh(exp(x))", "1 / log1p(expm1(-x))", "sigmoid(x / (x - x))"]
)
def test_swallowed_infinity_is_noticed(formula: str) -> None:
    assert mask_of(formula, x=800.0) is True


@pytest.mark.parametrize(
    "formula",
    [
        "sin(x)",
        "exp(x)",  # infinite itself
        "where(x > 1000, exp(x), x)",
        "minimum(exp(x), 2.0)",
        "where(x > 0, x, log(-x))",
        "exp(where(x > 0, -inf, x))",  # the infinity is the user's own
    ],
)
def test_infinity_that_plays_no_part_is_none(formula: str) -> None:
    assert mask_of(formula, x=800.0) is False


def test_only_the_entries_that_depend_on_it() -> None:
    x = np.array([1.0, 800.0, 2.0])
    assert mask_of("1 / exp(x)", x=x) == [False, True, False]
    assert mask_of("1 / exp(x) + y", x=x, y=np.zeros((2, 1))) == [[False, True, False]] * 2
    assert mask_of("sum(1 / exp(x))", x=x) is True
    assert mask_of("(1 / exp(x))[1]", x=x) is True
    assert mask_of("(1 / exp(x))[::-1][:1]", x=x) == [False]
    assert mask_of("where(x > 100, 1 / exp(x), x)", x=x) == [False, True, False]
    assert mask_of("where(x > 100, x, 1 / exp(x))", x=x) == [False, False, False]
    assert mask_of("maximum(1 / exp(x), 0.0)", x=x) == [False, True, False]
    square = np.array([[1.0, 800.0], [2.0, 3.0]])
    assert np.all(mask_of("(1 / exp(x)) @ x", x=square))


def test_infinite_input_is_no_overflow() -> None:
    assert mask_of("tanh(x)", x=np.inf) is False

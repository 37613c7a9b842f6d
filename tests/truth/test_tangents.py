"""The value and the tangent of a program, without keeping the numbers of all nodes."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.truth.tangents import value_and_tangent, value_of
from reference_engine.traced import ROWS
from tests.conftest import program_of

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
W = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]])
PROGRAM = program_of("where(x @ w > 0, tanh(x @ w), 0.5 * (x @ w))", {"x": X, "w": W})


def test_a_value_is_that_of_the_formula() -> None:
    y = X @ W
    expected = np.where(y > 0, np.tanh(y), y / 2)
    np.testing.assert_allclose(value_of(PROGRAM, {"x": X, "w": W}), expected, rtol=1e-15)


def test_a_tangent_is_the_derivative_along_the_inputs_that_move() -> None:
    y, dy = X @ W, X @ (2 * W)
    value, tangent = value_and_tangent(PROGRAM, {"x": X, "w": W}, {"w": 2 * W})
    np.testing.assert_allclose(value, np.where(y > 0, np.tanh(y), y / 2), rtol=1e-15)
    np.testing.assert_allclose(
        tangent, np.where(y > 0, dy / np.cosh(y) ** 2, dy / 2), rtol=1e-12, atol=1e-14
    )


def test_an_infinite_derivative_raises_no_warning() -> None:
    zero, one = np.array(0.0), np.array(1.0)
    program = program_of("sqrt(x)", {"x": zero})
    assert value_and_tangent(program, {"x": zero}, {"x": one}) == (0.0, np.inf)


def test_numbers_that_nothing_reads_any_more_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0

    def watched(*args: Any, **keywords: Any) -> Any:
        nonlocal most
        found = np.array(np.sin(*args, **keywords))
        alive.append(weakref.ref(found))
        most = max(most, sum(one() is not None for one in alive))
        return found

    monkeypatch.setitem(ROWS, "sin", watched)
    values = {"x": np.ones(2)}
    value_of(program_of("sin(sin(sin(sin(sin(x)))))", values), values)
    assert most == 2

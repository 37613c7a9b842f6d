"""The four compositions of reverse and forward mode, in every engine, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import SECOND, Projection, order_of
from gradcheck_cli.engines.base import Engine

THIRD = [mode for mode in SECOND if order_of(mode) == 3]
X = np.array([0.3, -1.2, 2.1])
Y = np.array([1.7, 0.4, -0.6])

# second derivatives worked out by hand
HESSIANS: list[tuple[str, dict[str, Any], dict[str, np.ndarray]]] = [
    ("sum(x ** 3)", {"x": X}, {"x.x": np.diag(6 * X)}),
    ("x * exp(y)", {"x": 2.0, "y": 0.5}, {"x.y": [[np.exp(0.5)]], "y.y": [[2 * np.exp(0.5)]]}),
    ("sum(x * y)", {"x": X, "y": Y}, {"x.y": np.eye(3), "y.x": np.eye(3)}),
]


@pytest.mark.parametrize("mode", SECOND)
@pytest.mark.parametrize(("text", "inputs", "blocks"), HESSIANS, ids=[row[0] for row in HESSIANS])
def test_second_derivatives_are_the_closed_forms(
    engine: Engine,
    ask: Callable[..., Any],
    text: str,
    inputs: dict[str, Any],
    blocks: dict[str, Any],
    mode: str,
) -> None:
    answer = ask(engine, text, mode=mode, **inputs)
    assert answer.failure is None
    assert len(answer.gradients) == len(inputs) ** 2
    for name, block in blocks.items():
        np.testing.assert_allclose(answer.gradients[name].values, block, rtol=1e-14)


@pytest.mark.parametrize("mode", SECOND[:3])
def test_given_columns_of_a_hessian(engine: Engine, ask: Callable[..., Any], mode: str) -> None:
    columns = {"x": np.array([[1.0, 2.0, -1.0]]), "y": np.array([[0.5, 0.0, 3.0]])}
    answer = ask(
        engine, "sum(x * x * y)", mode=mode, projection=Projection(columns=columns), x=X, y=Y
    )
    got = {name: gradient.values for name, gradient in answer.gradients.items()}
    np.testing.assert_allclose(got["x.x"][:, 0], 2 * Y * columns["x"][0], rtol=1e-14)
    np.testing.assert_allclose(got["x.y"][:, 0], 2 * X * columns["y"][0], rtol=1e-14)
    np.testing.assert_allclose(got["y.x"][:, 0], 2 * X * columns["x"][0], rtol=1e-14)


def test_forward_over_forward_goes_along_pairs_of_directions(
    engine: Engine, ask: Callable[..., Any]
) -> None:
    firsts = {"x": np.array([[1.0, 2.0, -1.0], [0.0, 1.0, 1.0]]), "y": np.array([[0.5, 0.0, 3.0]])}
    columns = {"x": np.array([[3.0, -1.0, 0.5]]), "y": np.array([[1.0, 1.0, 2.0]])}
    projection = Projection(columns=columns, firsts=firsts)
    answer = ask(
        engine, "sum(x * x * y)", mode="forward-over-forward", projection=projection, x=X, y=Y
    )
    got = {name: gradient.values for name, gradient in answer.gradients.items()}
    np.testing.assert_allclose(got["x.x"], firsts["x"] @ (2 * Y * columns["x"]).T, rtol=1e-14)
    np.testing.assert_allclose(got["x.y"], firsts["x"] @ (2 * X * columns["y"]).T, rtol=1e-14)
    np.testing.assert_allclose(got["y.x"], firsts["y"] @ (2 * X * columns["x"]).T, rtol=1e-14)
    assert answer.forward == 6  # the pairs of the four blocks: 2, 2, 1 and 1


@pytest.mark.parametrize("mode", SECOND)
def test_hessian_of_a_cotangent(engine: Engine, ask: Callable[..., Any], mode: str) -> None:
    rows = np.array([[2.0, 3.0, 5.0]])
    answer = ask(engine, "x ** 3", mode=mode, projection=Projection(rows=rows), x=X)
    np.testing.assert_allclose(answer.gradients["x.x"].values, np.diag(6 * X * rows[0]), rtol=1e-14)


def test_of_many_inputs_forward_over_forward_pairs_each_with_itself_and_the_next(
    engine: Engine, ask: Callable[..., Any]
) -> None:
    inputs = dict.fromkeys("abcde", 2.0)
    answer = ask(engine, "a * b * c * d * e", mode="forward-over-forward", **inputs)
    found = {name: gradient.values for name, gradient in answer.gradients.items()}
    assert {name for name in found if name.startswith("a.")} == {"a.a", "a.b"}
    assert len(found) == 10
    assert found["e.a"] == 8.0


@pytest.mark.parametrize("mode", THIRD)
def test_third_derivatives_are_the_closed_forms(
    engine: Engine, ask: Callable[..., Any], mode: str
) -> None:
    along = {"x": np.array([1.0, 2.0, -1.0]), "y": np.array([0.5, 0.0, 3.0])}
    answer = ask(engine, "sum(x ** 3 * y)", mode=mode, along=along, x=X, y=Y)
    assert answer.failure is None
    found = {name: gradient.values for name, gradient in answer.gradients.items()}
    mixed = np.diag(6 * X * along["x"])
    right = np.diag(6 * Y * along["x"] + 6 * X * along["y"])
    np.testing.assert_allclose(found["x.x"], right, rtol=1e-14)
    np.testing.assert_allclose(found["x.y"], mixed, rtol=1e-14)
    np.testing.assert_allclose(found["y.x"], mixed, rtol=1e-14)
    assert found["y.y"] is None or not np.any(found["y.y"])


@pytest.mark.parametrize("mode", THIRD)
def test_third_derivatives_of_a_cotangent(
    engine: Engine, ask: Callable[..., Any], mode: str
) -> None:
    rows, along = np.array([[2.0, 3.0, 5.0]]), {"x": np.array([1.0, -1.0, 0.5])}
    projection = Projection(rows=rows, columns={"x": np.array([[0.0, 2.0, 1.0]])})
    answer = ask(engine, "exp(x)", mode=mode, projection=projection, along=along, x=X)
    right = (rows[0] * np.exp(X) * along["x"] * [0.0, 2.0, 1.0])[:, None]
    np.testing.assert_allclose(answer.gradients["x.x"].values, right, rtol=1e-14)

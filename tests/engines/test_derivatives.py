"""vjp and jvp of functions with several targets and primals, and second derivatives from both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines import derivatives
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.derivatives import (
    forward_over_forward,
    forward_over_reverse,
    reverse_over_forward,
    reverse_over_reverse,
)

X = np.array([1.0, -2.0, 0.5])
Y = np.array([3.0, 0.25, -1.0])
U = np.array([1.0, 2.0, -1.0])
V = np.array([0.5, -1.0, 4.0])


@pytest.fixture(params=["reference", "torch", "tensorflow", "jax"])
def fw(request: pytest.FixtureRequest, engine_called: Callable[[str], Engine]) -> Any:
    return engine_called(request.param).framework("float64")  # type: ignore[attr-defined]


def two(moved: Any, _: Any = None) -> Any:
    """x^2 y and 3 y."""
    x, y = moved
    return [x * x * y, 3 * y], "the rest"


def same(moved: Any, _: Any = None) -> Any:
    return two(moved)[0], None


def numbers(fw: Any, arrays: Any) -> list[Any]:
    return [None if array is None else fw.numpy(array) for array in arrays]


def test_a_target_without_a_cotangent_is_not_used(fw: Any) -> None:
    targets, rest, vjp = fw.vjp(two, [fw.leaf(X), fw.leaf(Y)])
    np.testing.assert_array_equal(numbers(fw, targets), [X * X * Y, 3 * Y])
    assert rest == "the rest"
    np.testing.assert_array_equal(numbers(fw, vjp([fw.array(U), None])), [2 * X * Y * U, X * X * U])
    by_x, by_y = numbers(fw, vjp([None, fw.array(U)]))
    np.testing.assert_array_equal(by_y, 3 * U)
    assert by_x is None or not by_x.any()
    assert vjp([None, None]) == [None, None]


def test_tangents_of_several_primals_add_up(fw: Any) -> None:
    primals = [fw.array(X), fw.array(Y)]
    _, both, _ = fw.jvp(two, primals, [fw.array(U), fw.array(V)])
    np.testing.assert_allclose(numbers(fw, both), [2 * X * Y * U + X * X * V, 3 * V], rtol=1e-15)
    _, one, _ = fw.jvp(two, primals, [fw.array(U), None])
    np.testing.assert_allclose(fw.numpy(one[0]), 2 * X * Y * U, rtol=1e-15)


@pytest.mark.parametrize(
    "composed", [reverse_over_reverse, forward_over_reverse, reverse_over_forward]
)
def test_second_derivatives(fw: Any, composed: Callable[..., list[Any]]) -> None:
    """Of <u, x^2 y> along v in x."""
    primals = [fw.leaf(X), fw.leaf(Y)]
    found = composed(fw, same, primals, [fw.array(U), None], [fw.array(V), None])
    np.testing.assert_allclose(numbers(fw, found), [2 * Y * U * V, 2 * X * U * V], rtol=1e-15)


def test_second_tangents(fw: Any) -> None:
    """Of x^2 y along v in x, then along u in y."""
    primals = [fw.array(X), fw.array(Y)]
    found = forward_over_forward(fw, same, primals, [None, fw.array(U)], [fw.array(V), None])
    np.testing.assert_allclose(fw.numpy(found[0]), 2 * X * U * V, rtol=1e-15)
    assert found[1] is None or not np.any(fw.numpy(found[1]))


def test_a_tape_says_which_sources_an_array_depends_on(
    engine_called: Callable[[str], Engine],
) -> None:
    fw: Any = engine_called("torch").framework("float64")  # type: ignore[attr-defined]
    kept: list[Any] = []

    def function(moved: Any, _: Any) -> Any:
        kept.append(2 * moved[0])
        return [kept[0] * moved[1]], None

    _, _, vjp = fw.vjp(function, [fw.leaf(X), fw.leaf(Y)])
    assert isinstance(vjp, derivatives.TapeVJP)
    assert vjp.reaches(kept) == [True, False]

"""Which programs run at several points at once."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.truth.side_by_side import side_by_side
from tests.conftest import program_of

X, W = np.zeros((2, 3)), np.zeros(3)


@pytest.mark.parametrize(
    ("formula", "axes"),
    [
        ("x * w", {}),
        ("matmul(x, reshape_free)", {}),
        ("mean(x, axis=1, keepdims=True)", {"axis": -1}),
        ("var(x, axis=0, keepdims=True)", {"axis": -2}),
        ("sum(x, axis=(-1, 0), keepdims=True)", {"axis": (-1, -2)}),
        ("sum(x)", {"axis": (-2, -1)}),
        ("max(x, axis=0)", {"axis": -2}),
        ("sum(x, axis=(), keepdims=True)", {"axis": ()}),
    ],
)
def test_axes_are_counted_from_the_end(formula: str, axes: dict[str, object]) -> None:
    given = {"x": X, "w": W, "reshape_free": np.zeros((3, 2))}
    program = program_of(formula, {n: a for n, a in given.items() if n in formula})
    found = side_by_side(program)
    assert found is not None
    assert side_by_side(program) is found
    stated = list(found.keywords.values())
    assert [{"axis": one["axis"]} for one in stated] == ([axes] if axes else [])
    assert all(one["keepdims"] for one in stated)


@pytest.mark.parametrize("formula", ["matmul(x, w)", "cumsum(x, axis=0)", "max(x)", "norm(x)"])
def test_other_operations_are_left_alone(formula: str) -> None:
    program = program_of(formula, {"x": X} | ({"w": W} if "w" in formula else {}))
    assert side_by_side(program) is None


def test_results_that_gain_or_lose_axes_are_reshaped() -> None:
    found = side_by_side(program_of("sum(x, axis=0) * w", {"x": X, "w": W}))
    assert found is not None
    assert list(found.reshaped.values()) == [(-1, 1, 3)]


def test_shapes_meet_as_they_do_at_one_point() -> None:
    found = side_by_side(program_of("x * w", {"x": X, "w": W}))
    assert found is not None
    assert found.shape(5, (2, 3)) == (5, 2, 3)
    assert found.shape(5, (3,)) == (5, 1, 3)
    assert found.shape(5, ()) == (5, 1, 1)
    assert found.each == pytest.approx((6 + 3 + 6) / 3)

"""Points beside the own one, and the slopes there."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.truth.layers.beside import (
    FAR,
    Pair,
    cost_beside,
    is_confirmed,
    points_beside,
    visits,
)
from gradcheck_cli.truth.layers.projections import Projections
from tests.checks.making import subject_of, torch_engine

UNIT = 2.0**-24  # half an ulp of float32 near 1


def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def test_opposite_points_move_small_leaves_alone_at_first_and_all_of_them_later() -> None:
    given = {"x": np.full((2, 4), 3.0), "w": np.full((4, 8), 5.0)}
    with closing(subject_of(torch_engine(), linear, **given)) as subject:
        pairs = list(points_beside(subject.leaves, "float32", seed=0))
    assert [pair.times for pair in pairs] == [FAR, FAR, FAR, FAR, 1.0, 1.0, 1.0]
    for number, pair in enumerate(pairs):
        there, back = pair.there(), pair.back()
        assert set(there) == set(back) == ({"w", "x"} if number % 2 or number == 6 else {"x"})
        for name, value in there.items():
            move = value / given[name] - 1
            np.testing.assert_allclose(np.abs(move), pair.times * UNIT, rtol=1e-6)
            np.testing.assert_allclose(back[name] / given[name] - 1, -move, rtol=1e-6)
            assert len(np.unique(np.sign(move))) == (1 if number == 6 else 2)


@pytest.mark.parametrize("times", [FAR, 1.0])
def test_a_slope_beyond_a_kink_counts_in_full_and_a_smooth_one_as_rounding_moves_it(
    times: float,
) -> None:
    here, steps = np.array([1.0, -2.0, 0.5]), np.array([1e-6, 0.0, -3e-6])
    beyond = cost_beside(here, here + steps, here, times)
    np.testing.assert_allclose(beyond, np.abs(steps), rtol=1e-9)
    smooth = cost_beside(here, here + steps, here - steps, times)
    np.testing.assert_allclose(smooth, np.abs(steps) * min(1.0, 4.0 / times), rtol=1e-9)
    np.testing.assert_array_equal(cost_beside(here, here + steps, None, times), smooth)


def test_of_a_pair_the_second_point_is_visited_if_the_first_is_not_enough() -> None:
    seen: list[str] = []

    def slope_at(point: Any) -> str:
        seen.append(point())
        return seen[-1]

    pairs = [Pair(FAR, lambda: "a", lambda: "b"), Pair(1.0, lambda: "c", lambda: "d")]
    visited = visits(pairs, slope_at)
    assert next(visited)[2:] == ("a", None)
    assert seen == ["a"]
    assert [(at.times, at.point(), *at[2:]) for at in visited] == [
        (FAR, "a", "a", "b"),
        (FAR, "b", "b", "a"),
        (1.0, "c", "c", None),
        (1.0, "c", "c", "d"),
        (1.0, "d", "d", "c"),
    ]


def bent(b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A kink of the first output among many outputs without one."""
    return torch.cat([torch.relu(b - 0.01), x])


class Beside:
    """Tangents of `bent` where b is above 0.01."""

    def along(self, number: int) -> None:
        return None

    def at(self, point: Any, along: Any) -> np.ndarray:
        assert np.all(point["b"] > 0.01)
        return np.concatenate([along["b"], np.zeros(400_000)])


@pytest.mark.parametrize("tangents", [None, Beside()])
@pytest.mark.parametrize(("slope", "confirmed"), [(1.0, True), (0.5, False)])
def test_a_slope_beside_a_kink_is_confirmed_among_many_outputs(
    slope: float, confirmed: bool, tangents: Beside | None
) -> None:
    """The roundings of all outputs together would hide it if all had one sign."""
    rng = np.random.default_rng(0)
    given = {"b": np.array([0.01]), "x": rng.standard_normal(400_000)}
    with closing(subject_of(torch_engine(), bent, **given)) as subject:
        truth = Projections(subject, subject.value({}), {}, seed=0, tangents=tangents)
        beside = {"b": given["b"] * (1 + UNIT)}
        rows = rng.choice([-1.0, 1.0], (1, 400_001))
        rows[0, 0] = 1.0
        known, stated = np.zeros(1), np.array([0.01 * slope])
        found = is_confirmed(truth, "float32", beside, {"b": given["b"]}, rows, stated, known)
    assert found[0] == confirmed

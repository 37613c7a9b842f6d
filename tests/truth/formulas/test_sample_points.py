"""Points around a failing one."""

from __future__ import annotations

from itertools import islice

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.truth.formulas.sample_points import BROAD, FAR_BINADES, fresh_points

FMT = FORMATS["float32"]
X = {"x": np.array([100.0, -1e-30, 0.0]), "m": np.array([0.0, 1.0]), "k": np.array([1, 2])}


def drawn(count: int = 30, **bounds: tuple[float, float]) -> list[tuple[np.ndarray, bool]]:
    points = fresh_points(X, ("x", "k"), bounds, FMT, 3)
    return [(values["x"], near) for values, near in islice(points, count)]


def test_near_points_are_within_a_quarter_of_a_binade_and_others_within_six() -> None:
    for x, near in drawn():
        ratio = np.abs(x[:2] / X["x"][:2])
        limit = 1 + BROAD if near else 2.0**FAR_BINADES
        assert np.all((ratio <= limit * 1.001) & (ratio >= (1 - BROAD if near else 1 / limit)))
    assert 0 < sum(near for _, near in drawn()) < 30


def test_they_are_numbers_of_the_format_and_inside_the_bounds() -> None:
    for x, _ in drawn(x=(-1.0, 101.0)):
        assert np.all(FMT.round(x) == x)
        assert np.all((x >= -1) & (x <= 101))


def test_a_zero_stays_one_in_some_points_and_moves_in_others() -> None:
    zeros = [x[2] == 0 for x, near in drawn() if near]
    assert any(zeros)
    assert not all(zeros)


def test_what_does_not_move_stays_and_a_seed_repeats() -> None:
    one, two = (list(islice(fresh_points(X, ("x",), {}, FMT, 3), 5)) for _ in range(2))
    for (a, _), (b, _) in zip(one, two, strict=True):
        assert np.array_equal(a["x"], b["x"])
        assert np.array_equal(a["m"], X["m"])
        assert np.array_equal(a["k"], X["k"])

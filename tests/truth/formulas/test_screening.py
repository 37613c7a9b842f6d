"""Candidates are screened against the truth of the original."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Projection
from gradcheck_cli.domain.fixes import Candidate, FixRequest, Screened
from gradcheck_cli.truth import compute
from gradcheck_cli.truth.formulas import screening
from gradcheck_cli.truth.formulas.screening import BROAD, FAR_BINADES, LEAST, fresh_points, screen
from tests.conftest import array, program_of


def screened(
    formula: str,
    values: Mapping[str, Any],
    *others: str,
    holds: str = "",
    wrt: tuple[str, ...] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    dtype: str = "float32",
) -> Screened:
    """What is left of these formulas as fixes of the first."""
    fmt = FORMATS[dtype]
    rounded = {name: fmt.round(array(value)) for name, value in values.items()}
    request = TruthRequest(
        program=program_of(formula, values),
        values=rounded,
        bounds=bounds or {},
        wrt=wrt or tuple(values),
        dtype=dtype,
        projections={"reverse": Projection()},
    )
    condition = program_of(f"{holds} + 0.0 * where({holds}, 1.0, 0.0)", values) if holds else None
    candidates = tuple(
        Candidate(
            program=program_of(other, values),
            before=formula,
            after=other,
            model=other,
            rules=(),
            part=program_of(other, values),
            condition=holds,
            holds=condition,
        )
        for other in others
    )
    return screen(FixRequest(request, compute(request), candidates, ("reverse",)))


def kept(found: Screened) -> list[str]:
    return [trial.candidate.after for trial in found.trials]


def test_the_stable_form_is_kept_and_others_are_not() -> None:
    found = screened("1 / exp(x)", {"x": 100.0}, "exp(-x)", "1 / exp(x)", "exp(-x) * 1.001")
    assert kept(found) == ["exp(-x)"]


def test_a_search_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not screened("1 / exp(x)", {"x": 100.0}, "exp(-x)").late
    monkeypatch.setattr(screening, "SECONDS", 0.0)
    found = screened("1 / exp(x)", {"x": 100.0}, "exp(-x)")
    assert (found.trials, found.late) == ((), True)


def test_an_epsilon_or_a_clip_is_another_function() -> None:
    assert not kept(screened("log(p)", {"p": 1e-10}, "log(p + 1e-7)", "log(clip(p, min=1e-7))"))


def test_one_that_is_right_at_the_point_alone_is_not_kept() -> None:
    x = 100.0
    truth = float(np.exp(-x))
    assert not kept(screened("1 / exp(x)", {"x": x}, f"{truth} * (1 - (x - 100))"))


def test_one_that_is_wrong_where_the_original_is_right_is_not_kept() -> None:
    # log(2 x) is asinh(x) for large x only, which a factor of 64 leaves
    assert not kept(screened("log(x + sqrt(x * x + 1))", {"x": 40.0}, "log(2 * x)"))


def test_the_shortest_of_those_that_are_as_good_comes_first() -> None:
    found = screened("log(1 + exp(x))", {"x": 100.0}, "logaddexp(x, 0.0)", "softplus(x)")
    assert kept(found) == ["softplus(x)", "logaddexp(x, 0.0)"]


def test_what_conditioning_explains_is_no_error_of_the_candidate() -> None:
    values = {"x": [1000.0, 1001.0, 1002.3]}
    stable = "mean((x - mean(x)) ** 2)"
    assert kept(screened("mean(x * x) - mean(x) ** 2", values, stable)) == [stable]


def test_the_gradient_must_be_right_too() -> None:
    softplus = "where(x > 50, x + 0.0 * exp(x), softplus(x))"
    assert not kept(screened("log(1 + exp(x))", {"x": 100.0}, softplus))


def test_a_flushed_subnormal_is_right() -> None:
    (trial,) = screened("1 / exp(x)", {"x": 100.0}, "where(x > 90, 0.0 * x, exp(-x))").trials
    assert trial.worst <= 4


def test_the_failing_point_comes_first_and_enough_fresh_ones_follow() -> None:
    (trial,) = screened("1 / exp(x)", {"x": 100.0}, "exp(-x)").trials
    first, *fresh = trial.points
    assert first.values["x"] == 100
    assert len(fresh) >= LEAST
    assert len({float(point.values["x"]) for point in trial.points}) == len(trial.points)


def test_fresh_points_stay_in_the_domain() -> None:
    (trial,) = screened("1 / exp(x)", {"x": 100.0}, "exp(-x)", bounds={"x": (99.0, 101.0)}).trials
    assert all(99 <= point.values["x"] <= 101 for point in trial.points)


def test_without_points_that_have_a_truth_nothing_is_tried() -> None:
    values = {"p": 1.0, "q": 0.5}
    found = screened("0 * log(p - p) + q", values, "0 * p + q", wrt=("q",))
    assert found.untried
    assert not found.trials


def test_what_is_not_differentiated_moves_where_it_alone_leaves_no_truth() -> None:
    values = {"p": 1.0, "q": 0.5}
    right = "where(p == 1, 0, (1 - p) * log(where(p == 1, 1, (1 - p) / q))) + q"
    assert screened("(1 - p) * log((1 - p) / q) + q", values, right, wrt=("q",)).trials
    # nothing is known at the point itself, and of p = 1 that it is everywhere, this is right
    assert not screened("(1 - p) * log((1 - p) / q) + q", values, "0 * p + q", wrt=("q",)).trials


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

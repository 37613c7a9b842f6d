"""Points drawn over the domain of a layer's inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.sampling import LARGE, POINTS, POINTS_OF_LARGE, over_the_domain
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem
from gradcheck_cli.domain.report import Check, Finding
from tests.checks.making import layer_problem, torch_engine
from tests.report.samples import nan_finding

CHECK = Check("torch", "float64", "reverse", "x", "passed", max_ulps=1.0, forward=3, backward=1)
AT_THE_POINT = LayerAnswer(checks=(CHECK,))


def problem(values: object, low: float = -np.inf, high: float = np.inf) -> LayerProblem:
    return layer_problem(abs, {"x": values}, domain=(low, high))  # type: ignore[dict-item]


def drawn(asked: LayerProblem) -> np.ndarray:
    """The numbers of every point that is looked at, (points, *shape)."""
    seen = []

    def examined(moved: LayerProblem) -> LayerAnswer:
        seen.append(moved.spec.points[0]["x"].value)
        return AT_THE_POINT

    over_the_domain(asked, AT_THE_POINT, examined)
    return np.array(seen)


def test_every_entry_has_one_number_in_each_part_of_its_domain() -> None:
    points = drawn(problem([0.5, 1.0, 7.0], 0.0, 8.0))
    assert points.shape == (POINTS, 3)
    np.testing.assert_array_equal(np.sort(np.floor(points), axis=0).T, [np.arange(8)] * 3)
    np.testing.assert_array_equal(points, drawn(problem([0.5, 1.0, 7.0], 0.0, 8.0)))  # seeded


def test_a_domain_of_many_decades_is_drawn_by_size() -> None:
    points = drawn(problem(1.0, 1e-4, 1e4))
    np.testing.assert_array_equal(np.sort(np.floor(np.log10(points))), np.arange(-4, 4))


def test_a_symmetric_matrix_stays_one() -> None:
    points = drawn(problem([[2.0, 0.5], [0.5, 1.0]], 0.0, 8.0))
    np.testing.assert_array_equal(points, np.swapaxes(points, 1, 2))
    np.testing.assert_array_equal(np.sort(np.floor(points[:, 1, 0])), np.arange(8))
    others = drawn(problem([[2.0, 0.5], [0.75, 1.0]], 0.0, 8.0))
    assert np.all(others[:, 0, 1] != others[:, 1, 0])


def test_the_cholesky_factor_is_right_over_a_domain() -> None:
    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x + 4 * torch.eye(2, dtype=x.dtype))

    asked = layer_problem(
        layer, {"x": [[2.0, 0.5], [0.5, 1.0]]}, domain=(0.0, 2.0), modes=("reverse",)
    )
    answer = over_the_domain(asked, AT_THE_POINT, partial(examine, torch_engine()))
    assert not answer.findings
    assert not answer.notes


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [(2.0, np.inf, 2.0, 2.0 + 4 * 3.0), (-np.inf, 2.0, 2.0 - 4 * 1.0, 2.0)],
)
def test_an_open_end_is_a_few_times_as_far_as_the_point(
    low: float, high: float, least: float, most: float
) -> None:
    points = drawn(problem(5.0 if np.isfinite(low) else 1.5, low, high))
    assert least <= points.min() < least + (most - least) / 4
    assert most - (most - least) / 4 < points.max() <= most


def test_a_large_layer_has_fewer_points_and_no_domain_has_none() -> None:
    assert len(drawn(problem(np.full(LARGE + 1, 0.5), 0.0, 1.0))) == POINTS_OF_LARGE
    assert len(drawn(problem([0.5, 1.0]))) == 0


def test_numbers_rounded_to_the_dtype_stay_in_the_domain() -> None:
    third = 1 / 3
    narrow = replace(problem(third, third, third * (1 + 1e-9)), dtype="float32")
    points = drawn(narrow)
    assert np.all((points >= third) & (points <= third * (1 + 1e-9)))


def answers(*findings: Finding) -> Callable[[LayerProblem], LayerAnswer]:
    return lambda moved: replace(AT_THE_POINT, findings=findings)


def test_an_error_elsewhere_is_told_once_with_its_point() -> None:
    wrong = replace(nan_finding("torch"), code="GC101", mode="reverse", input="x")
    asked = problem(0.5, 0.0, 1.0)
    answer = over_the_domain(asked, AT_THE_POINT, answers(wrong))
    (found,) = answer.findings
    assert "at a point drawn from the domain (seed 0): x = 0." in found.message
    (check,) = answer.checks
    assert (check.status, check.max_ulps) == ("failed", None)
    assert (check.forward, check.backward) == (3 + POINTS * 3, 1 + POINTS * 1)
    assert any("GC101 of `x`" in note for note in answer.notes)


def test_an_error_of_the_given_point_and_a_warning_elsewhere_add_nothing() -> None:
    wrong = replace(nan_finding("torch"), code="GC101", mode="reverse", input="x")
    there = replace(AT_THE_POINT, findings=(wrong,))
    answer = over_the_domain(problem(0.5, 0.0, 1.0), there, answers(wrong))
    assert answer.findings == (wrong,)
    warning = replace(wrong, severity="warning")
    assert over_the_domain(problem(0.5, 0.0, 1.0), AT_THE_POINT, answers(warning)).findings == ()

"""Points of differences in one call of the layer, where that changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.engines.callables.subject import SubjectRequest
from gradcheck_cli.engines.callables.torch import TorchSubject
from tests.layers.making import examined, layer_problem


def normalised(x: Any) -> Any:
    return ((x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)).sum(-1)


def in_place(x: Any) -> Any:
    return x.mul_(2).sin_()


def branching(x: Any) -> Any:
    return torch.sin(x) if x.sum() > 0 else torch.cos(x)


def noisy(x: Any) -> Any:
    return x * torch.rand(3)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


CASES = [
    (normalised, True),
    (in_place, True),
    (torch.nn.Conv1d(2, 2, 2), True),
    (branching, False),
    (noisy, False),
    (Doubled, False),
    (torch.nn.BatchNorm1d(3), False),
    (lambda x: Doubled.apply(x) + 1, False),
]


@pytest.mark.parametrize(("layer", "batched"), CASES)
def test_several_points_are_what_they_are_one_by_one(layer: Any, batched: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3))
    problem = layer_problem(layer, {"x": x})
    subject = TorchSubject(SubjectRequest(problem.implementation, {"x": x}, "float64", "float64"))
    many = [{"x": x + step} for step in (0.0, 0.1, -0.1)]
    for _ in range(2):
        np.testing.assert_array_equal(
            subject.several(many), np.stack([subject.value(point) for point in many])
        )
    counts = (subject.stencils.batched, subject.stencils.looped)
    assert counts == ((6, 0) if batched else (0, 6))


def test_a_report_says_how_points_were_evaluated() -> None:
    x = [[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]]
    for check in examined(lambda x: x * torch.sin(x), {"x": x}).checks:
        assert (check.batched > 0, check.looped) == (True, 0)
    for check in examined(branching, {"x": x}).checks:
        assert (check.batched, check.looped > 0) == (0, True)

"""Points of differences in one call of the layer, where that changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.engines.layer.subject import SubjectRequest
from gradcheck_cli.engines.torch.batched import OPERATIONS
from gradcheck_cli.engines.torch.layer import TorchSubject
from tests.checks.making import examined, layer_problem


def longer(x: Any) -> Any:
    """x, by more operations than it takes for a batch to pay."""
    for _ in range(OPERATIONS):
        x = 1.0 * x
    return x


def normalised(x: Any) -> Any:
    return longer((x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)).sum(-1)


def in_place(x: Any) -> Any:
    return longer(x.mul_(2)).sin_()


def branching(x: Any) -> Any:
    return longer(torch.sin(x) if x.sum() > 0 else torch.cos(x))


def noisy(x: Any) -> Any:
    return longer(x) * torch.rand(3)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


class Longer(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return longer(self.inner(x))


CASES = [
    (normalised, True),
    (in_place, True),
    (Longer(torch.nn.Conv1d(2, 2, 2)), True),
    (torch.sin, False),  # short
    (branching, False),
    (noisy, False),
    (lambda x: longer(Doubled.apply(x)), False),
    (Longer(torch.nn.BatchNorm1d(3)), False),
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


class Keeping(torch.nn.Module):
    """It looks at what its last call left."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        assert isinstance(float((self.last + self.mean).detach().sum()), float)
        self.last, self.mean = x, x.detach()
        return longer(torch.sin(x)).sum()


@pytest.mark.parametrize("captured", [False, True])
def test_no_tensor_of_a_batch_outlives_it_in_what_a_module_keeps(captured: bool) -> None:
    module = Keeping()
    layer = (lambda x: module(x)) if captured else module
    answer = examined(layer, {"x": [0.5, -1.5, 2.0]})
    assert not answer.findings
    float(module.last.detach().sum())


def test_a_report_says_how_points_were_evaluated() -> None:
    x = [[0.5, -1.5, 2.0], [1.0, 0.25, -0.75]]
    for check in examined(lambda x: longer(x * torch.sin(x)), {"x": x}).checks:
        assert (check.batched > 0, check.looped) == (True, 0)
    for check in examined(branching, {"x": x}).checks:
        assert (check.batched, check.looped > 0) == (0, True)

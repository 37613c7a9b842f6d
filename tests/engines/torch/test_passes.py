"""Layers of PyTorch whose backward runs once a forward, or by `.backward()` alone: their gradients
are judged all the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gradcheck_cli.testing.api import check
from tests.checks.making import behaviour, examined


class Freeing(torch.autograd.Function):
    """Frees in its backward what it kept."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.kept = x.detach().clone()
        return torch.sin(x)

    @classmethod
    def slope(cls, ctx: Any, g: Any) -> Any:
        if ctx.kept is None:
            raise RuntimeError("one backward a forward")
        x, ctx.kept = ctx.kept, None
        return cls.factor * g * torch.cos(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Freeing.slope(ctx, g)


class FreeingWrong(Freeing):
    factor = 2.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return FreeingWrong.slope(ctx, g)


class Popping(torch.autograd.Function):
    """Takes what it kept out of a list: a second pass finds none, and Python says so."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.kept = [torch.cos(x)]
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.kept.pop()


def recomputed(x: Any) -> Any:
    return checkpoint(lambda y: torch.sin(y) * y, x, use_reentrant=True)


def recomputed_wrong(x: Any) -> Any:
    return checkpoint(lambda y: torch.sin(y) * y.detach(), x, use_reentrant=True)


@pytest.mark.parametrize(
    ("layer", "codes"),
    [
        (Freeing, set()),
        (FreeingWrong, {"GC101"}),
        (Popping, set()),
        (recomputed, set()),
        (recomputed_wrong, {"GC101"}),
    ],
)
def test_gradients_are_judged(layer: Any, codes: set[str]) -> None:
    for dtype in ("float32", "float64"):
        answer = examined(layer, {"x": [0.5, 1.5]}, dtype=dtype, modes=("reverse",))
        assert answer.failure is None
        assert {finding.code for finding in answer.findings} == codes


def test_a_parameter_keeps_the_gradient_that_it_had() -> None:
    weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    weight.grad = torch.tensor([7.0, 7.0])

    def layer(x: Any) -> Any:
        return checkpoint(lambda y: torch.sin(y) * weight, x, use_reentrant=True)

    answer = examined(layer, {"x": [0.5, 1.5]}, modes=("reverse",))
    assert answer.failure is None
    assert {check.status for check in answer.checks} == {"passed"}
    assert weight.grad.tolist() == [7.0, 7.0]


def test_a_second_pass_over_one_graph_that_raises_is_still_told() -> None:
    assert set(behaviour(Freeing, {"x": [0.5, 1.5]})) == {"GC605"}
    assert behaviour(recomputed, {"x": [0.5, 1.5]}) == {}


def test_second_derivatives_that_pytorch_refuses_are_said_to_be_refused() -> None:
    report = check(recomputed, torch.tensor([0.3, -1.2]), order=2, dtypes=["float64"])
    assert [finding.code for finding in report.findings] == ["GC106"]
    assert "use_reentrant=True" in report.findings[0].message


def test_symbols_of_the_compiler_are_not_asked_for_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch imports them, which takes a second, where `torch.autograd.grad` compares shapes."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(torch.autograd, "_make_grads", refused)
    assert check(lambda x: torch.sin(x), torch.ones(2), modes="reverse").passed

"""Questions that are put together: few runs of a right layer, and no fault that is lost among
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.behaviour.joint_runs import doubts_of
from tests.checks.making import behaviour

X = {"x": np.array([[0.7, -1.3, 0.4], [2.0, 0.1, -0.6]])}


class Counted:
    """sin, and how often it ran; at one of its runs something else."""

    def __init__(self, at: int = 0, there: Callable[[Any], Any] = torch.sin) -> None:
        self.runs, self._at, self._there = 0, at, there

    def __call__(self, x: Any) -> Any:
        self.runs += 1
        return self._there(x) if self.runs == self._at else torch.sin(x)


def test_a_right_layer_runs_a_few_times() -> None:
    layer = Counted()
    assert behaviour(layer, X, modes=("reverse",)) == {}
    assert layer.runs == 8


def test_a_value_that_differs_in_a_single_run_is_no_layout() -> None:
    with_others_beside = (4, 5, 7, 8)
    for at in with_others_beside:
        found = behaviour(Counted(at, lambda x: torch.sin(x) * 1.5), X, modes=("reverse",))
        assert list(found) == ["GC602"], at


def test_each_check_is_named_by_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.clamp(-2, 2) * torch.cos(ctx.saved_tensors[0])

    found: list[set[str]] = []

    def kept(bench: Any) -> Any:
        doubts = doubts_of(bench)
        found.append({check.__name__ for doubt in doubts for check in doubt.checks})
        return doubts

    monkeypatch.setattr("gradcheck_cli.checks.behaviour.checks.doubts_of", kept)
    layers = {
        "linear": Clipped,
        "layout": lambda x: x * (1 + (x.stride()[0] == 0)),
        "request": lambda x: x * (1 + 1e-3 * torch.is_grad_enabled()),
        "none": torch.sin,
    }
    for layer in layers.values():
        behaviour(layer, X)
    assert found == [
        {"call_affects_next", "linear", "of_upstream", "of_inputs"},
        {"call_affects_next", "linear", "of_upstream", "of_inputs"},
        {"requested"},
        set(),
    ]

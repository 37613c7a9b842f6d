"""Hooks that change gradients, and hooks that only look."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from gradcheck_cli.engines.torch.hooks import copy_with_hooks, hooks_of
from tests.checks.making import examined


class OfATensor(nn.Module):
    def forward(self, x: Any) -> Any:
        h = torch.sin(x)
        if h.requires_grad:
            h.register_hook(lambda gradient: gradient / 2)
        return 3 * h


class OfAParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.3, -1.2]))
        self.weight.register_hook(lambda gradient: gradient * torch.tensor([1.0, 0.0]))

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.weight * x)


def doubled(module: Any, inputs: Any, outputs: Any) -> Any:
    return (2 * inputs[0],)


class OfAModule(nn.Module):
    def __init__(self, before: bool = False) -> None:
        super().__init__()
        self.tanh = nn.Tanh()
        if before:
            self.tanh.register_full_backward_pre_hook(lambda module, outputs: (-outputs[0],))
        else:
            self.tanh.register_full_backward_hook(doubled)

    def forward(self, x: Any) -> Any:
        return self.tanh(x)


HALVED = "saved_tensors_hooks(lambda y: y, lambda y: y / 2)"


class OfSavedTensors(nn.Module):
    def forward(self, x: Any) -> Any:
        with saved_tensors_hooks(lambda y: y, lambda y: y / 2):
            return torch.exp(x) * x


@pytest.mark.parametrize(
    ("module", "input", "text"),
    [
        (OfSavedTensors(), "x", f"with {HALVED}: return torch.exp(x) * x"),
        (OfATensor(), "x", "h.register_hook(lambda gradient: gradient / 2)"),
        (OfAParameter(), "weight", "gradient * torch.tensor([1.0, 0.0])"),
        (OfAModule(), "x", "(2 * inputs[0],)"),
        (OfAModule(before=True), "x", "(-outputs[0],)"),
    ],
)
def test_a_hook_that_changes_a_gradient_is_the_cause(module: Any, input: str, text: str) -> None:
    answer = examined(module, {"x": [0.5, 2.0]}, modes=("reverse",))
    (found,) = [finding for finding in answer.findings if finding.code == "GC101"]
    assert found.input == input
    assert found.cause is not None
    assert (found.cause.kind, found.cause.text) == ("gradient hook", text)
    assert found.cause.proven


def test_hooks_that_only_look_change_nothing() -> None:
    module = nn.Linear(2, 2)
    seen: list[Any] = []
    module.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs))
    module.weight.register_hook(seen.append)
    assert not examined(module, {"input": [[0.5, 2.0]]}, modes=("reverse",)).findings
    assert seen


def test_a_parameter_keeps_its_attributes() -> None:
    module = nn.Linear(2, 2)
    module.weight.scale = [3.0]
    module.weight.lock = threading.Lock()
    copied = copy_with_hooks(module)
    assert copied.weight.scale == [3.0]
    assert copied.weight.scale is not module.weight.scale
    assert copied.weight.lock is module.weight.lock
    assert copied.weight is not module.weight


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.3, -1.2]))
        self.weight.register_hook(self.count)
        self.calls = 0

    def count(self, gradient: Any) -> None:
        self.calls += 1

    def forward(self, x: Any) -> Any:
        return self.weight * x


def test_a_hook_that_is_a_method_counts_in_the_copy() -> None:
    module = Counting()
    assert not examined(module, {"x": [0.5, 2.0]}, modes=("reverse",)).findings
    assert module.calls == 0


def test_a_hook_is_left_out_for_a_while() -> None:
    module = copy_with_hooks(OfAParameter())
    (hook,) = hooks_of(module.modules())
    weight, x = module.weight, torch.ones(2)

    def gradient() -> Any:
        return torch.autograd.grad((weight * x).sum(), weight)[0].tolist()

    assert gradient() == [1.0, 0.0]
    with hook.removed():
        assert gradient() == [1.0, 1.0]
    assert gradient() == [1.0, 0.0]


def test_a_hook_that_runs_after_the_gradient_is_noted_and_not_run() -> None:
    steps: list[str] = []
    layer = nn.Linear(3, 2)
    layer.weight.register_post_accumulate_grad_hook(lambda weight: steps.append("step"))
    for subject in (layer, lambda x: layer(x)):
        answer = examined(subject, {"x": [[0.3, -1.2, 2.0]]})
        assert not answer.findings
        (note,) = (one for one in answer.notes if "register_post_accumulate_grad_hook" in one)
        assert "weight`" in note
        assert "bias" not in note
    assert not steps
    assert not any("accumulate" in note for note in examined(nn.Linear(1, 1), {"x": [[1.0]]}).notes)

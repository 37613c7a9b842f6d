import numpy as np
import pytest
import torch
from torch import nn

from tests.checks.making import behaviour, examined

X = {"x": np.array([0.7, -1.3])}


def test_a_value_that_depends_on_tracking() -> None:
    found = behaviour(lambda x: x * (1 + 1e-6 * torch.is_grad_enabled()), X)
    assert "no gradients are tracked" in found["GC608"]


def force(x, scale):
    return scale * torch.autograd.grad((x.sin() ** 2).sum(), x, create_graph=True)[0]


def test_a_layer_that_needs_its_graph_has_a_note() -> None:
    at = X | {"scale": np.array([0.5, 2.0])}
    answer = examined(force, at, behaviour=True)
    assert [(one.code, one.severity) for one in answer.findings] == [("GC608", "note")]
    assert "no gradients are tracked" in answer.findings[0].message


def asserting(x):
    assert torch.is_grad_enabled(), "for training only"
    return x.sin()


def refusing(x):
    if not torch.is_grad_enabled():
        raise ValueError("it is evaluated by its exported twin")
    return x.sin()


@pytest.mark.parametrize("layer", [asserting, refusing])
def test_a_layer_that_refuses_to_run_without_gradients_has_a_note(layer):
    answer = examined(layer, X, behaviour=True)
    assert [(one.code, one.severity) for one in answer.findings] == [("GC608", "note")]


def test_a_layer_that_raises_for_another_reason_has_an_error() -> None:
    def unmatched(x):
        return x if torch.is_grad_enabled() else x @ torch.ones(7, dtype=x.dtype)

    answer = examined(unmatched, X, behaviour=True)
    assert [(one.code, one.severity) for one in answer.findings] == [("GC608", "error")]


def test_a_layer_that_needs_its_graph_has_its_faults_too() -> None:
    def depends(x, scale):
        return force(x, scale if scale.requires_grad else 2 * scale)

    at = X | {"scale": np.array([0.5, 2.0])}
    answer = examined(depends, at, behaviour=True)
    assert [one.severity for one in answer.findings] == ["note", "error"]
    assert "only `x` requires a gradient" in answer.findings[1].message


def test_a_gradient_that_depends_on_who_asks() -> None:
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([3.0, 0.5]))

        def forward(self, x):
            return (
                x if self.weight.requires_grad else x.detach() + 2 * (x - x.detach())
            ) * self.weight

    assert "only `x` requires a gradient" in behaviour(Frozen(), X)["GC608"]


def test_outputs_that_are_not_used() -> None:
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return torch.sin(x), x * x

        @staticmethod
        def backward(ctx, g, h):
            (x,) = ctx.saved_tensors
            if h is None:
                return g
            return 2 * x * h + (0 if g is None else g * torch.cos(x))

    assert "`y[0]` is the only output" in behaviour(Pair, X)["GC608"]
    assert behaviour(lambda x: {"a": x.sin(), "mask": x > 0, "b": x * x}, X) == {}

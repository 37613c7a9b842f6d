import numpy as np
import torch
from torch import nn

from tests.checks.making import behaviour

X = {"x": np.array([0.7, -1.3])}


def with_weight(forward):
    """A module with one parameter and one buffer, and this forward."""

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([3.0, 0.5]))
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            return forward(self, x)

    return Module()


def hooked(y, hook):
    if y.requires_grad:
        y.register_hook(hook)
    return y


def test_writing_to_an_input_is_found_however_it_is_done() -> None:
    def quietly(x):
        x.data[0] = 5.0  # does not count as a write for PyTorch
        return x * 2

    for layer in (torch.relu_, quietly, lambda x: x.mul_(1) * 2):
        assert list(behaviour(layer, X)) == ["GC603"]


def test_a_forward_that_changes_its_parameter_and_what_it_may_change() -> None:
    def clip(self, x):
        with torch.no_grad():
            self.weight.clamp_(-1, 1)
        return x * self.weight

    def count(self, x):
        self.seen += 1
        return x * self.weight

    found = behaviour(with_weight(clip), X)
    assert list(found) == ["GC603"]
    assert "parameter `weight`" in found["GC603"]
    assert behaviour(with_weight(count), X) == {}


def test_a_write_that_nothing_reads_and_no_second_one_repeats() -> None:
    def clip_data(self, x):
        self.weight.data.clamp_(-2, 2)
        return x * 2

    def other_data(self, x):
        self.weight.data = self.weight.data.clamp(-2, 2)
        return x * 2

    for forward in (clip_data, other_data):
        assert list(behaviour(with_weight(forward), X)) == ["GC603"]


def test_what_a_backward_leaves_behind() -> None:
    def note(self, x):
        def write(g):
            self.seen += g

        return hooked(x * self.weight, write)

    def gather(self, x):
        def add(g):
            self.weight.grad = g * x.detach()

        return hooked(x * self.weight, add)

    assert "buffer `seen`" in behaviour(with_weight(note), X)["GC605"]
    assert "`.grad` of `weight`" in behaviour(with_weight(gather), X)["GC605"]


def test_a_forward_that_adds_to_gradients() -> None:
    def backward(x):  # as one who means torch.autograd.grad
        y = torch.sin(x)
        if y.requires_grad:
            y.sum().backward(retain_graph=True)
        return y

    def apart(x):  # of a copy: nobody else sees these gradients
        w = x.detach().clone().requires_grad_()
        with torch.enable_grad():
            (w * w).sum().backward()
        return torch.sin(x) * w.grad

    assert "`.grad` of `x`" in behaviour(backward, X)["GC605"]
    assert "GC605" not in behaviour(apart, X)


def test_an_upstream_gradient_that_is_overwritten() -> None:
    def scaling(x):
        return hooked(x * 2, lambda g: g.mul_(3).div_(3))

    assert list(behaviour(scaling, X)) == ["GC604"]


def test_one_backward_that_adds_to_many_gradients_is_told_once() -> None:
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.names = [f"w{i}" for i in range(5)]
            for name in self.names:
                self.register_parameter(name, nn.Parameter(torch.ones(2)))

        def forward(self, x):
            weights = [getattr(self, name) for name in self.names]

            class Product(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 5

                @staticmethod
                def backward(ctx, g):
                    for weight in weights:
                        weight.grad = g if weight.grad is None else weight.grad + g
                    return g * 5

            return Product.apply(x) + 0 * sum(weights)

    found = behaviour(Own(), X)
    assert "the `.grad` of `w0`, `w1`, `w2` and 2 more: a gradient" in found["GC605"]

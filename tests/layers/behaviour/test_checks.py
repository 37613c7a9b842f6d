"""Right layers have nothing but notes; a layer that cannot be run is left to the other checks."""

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrizations

from tests.layers.making import behaviour, examined

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((4, 6))


class Centred(torch.autograd.Function):
    """A right rule of several inputs, with everything that may be used in one."""

    @staticmethod
    def forward(ctx, x, w):
        y = (x - x.mean(-1, keepdim=True)) * w
        ctx.save_for_backward(x, w)
        return y, x.sum()

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        inner = g * w
        dw = (g * (x - x.mean(-1, keepdim=True))).sum(0) if ctx.needs_input_grad[1] else None
        return inner - inner.mean(-1, keepdim=True) + h, dw


def test_right_layers_have_nothing_but_notes() -> None:
    attention = nn.MultiheadAttention(6, 2, batch_first=True)
    layers = {
        "linear": (nn.Linear(6, 3), {"input": ROWS}),
        "layer norm": (nn.LayerNorm(6), {"input": ROWS}),
        "batch norm": (nn.BatchNorm1d(6), {"input": ROWS}),
        "lstm": (nn.LSTM(6, 3), {"input": ROWS[None]}),
        "attention": (lambda x: attention(x, x, x), {"x": ROWS[None]}),
        "convolution": (nn.Conv2d(1, 2, 2), {"input": RNG.standard_normal((2, 1, 4, 4))}),
        "pooling": (nn.MaxPool2d(2), {"input": RNG.standard_normal((2, 1, 4, 4))}),
        "ties and kinks": (lambda x: x.relu().amax(0), {"x": np.zeros((3, 2))}),
        "function": (Centred, {"x": ROWS, "w": RNG.standard_normal(6)}),
        "integers": (nn.Embedding(5, 3), {"input": np.array([0, 3, 3])}),
        "scripted": (torch.jit.script(nn.Linear(6, 3)), {"input": ROWS}),
        "spectral norm": (parametrizations.spectral_norm(nn.Linear(6, 3)), {"input": ROWS}),
        "no output": (lambda x: x > 0, {"x": ROWS}),
        "overflow": (torch.exp, {"x": np.array([709.0, 1.0])}),
        "edge of the domain": (lambda x: torch.linalg.cholesky(x @ x.T), {"x": np.eye(2)}),
        "a cast": (lambda x: x.half() * 2, {"x": ROWS}),
        "singular at zero": (lambda x: x.norm(), {"x": np.zeros(3)}),
    }
    found = {name: behaviour(layer, inputs) for name, (layer, inputs) in layers.items()}
    assert found == {name: {} for name in layers}
    found = {name: behaviour(*layers[name], dtype="bfloat16") for name in ("linear", "function")}
    assert found == {name: {} for name in found}


def test_state_that_belongs_there_is_a_note() -> None:
    answer = examined(nn.BatchNorm1d(6), {"input": ROWS}, behaviour=True)
    assert answer.findings == ()
    (note,) = answer.notes
    assert "running_mean, running_var" in note


def test_random_numbers_are_a_note() -> None:
    found = behaviour(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)), {"input": ROWS})
    assert list(found) == ["GC601"]
    assert behaviour(nn.Dropout(0.5).eval(), {"input": ROWS}) == {}
    assert list(behaviour(lambda x: x * np.random.random(), {"x": ROWS})) == ["GC601"]


def test_a_layer_that_cannot_be_run_is_left_to_the_checks_of_its_gradients() -> None:
    def broken(x):
        raise ValueError("no")

    assert behaviour(broken, {"x": ROWS}) == {}
    assert examined(broken, {"x": ROWS}).failure is not None
    assert behaviour("layers.py:Transposed", {"x": ROWS, "w": np.eye(6)[:, :2]}) == {}


def test_a_layer_without_float64_is_checked_in_its_own_precision() -> None:
    class Narrow(nn.Module):
        def forward(self, x):
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            x *= 2
            return torch.sin(x)

    assert list(behaviour(Narrow(), {"x": ROWS}, dtype="float32")) == ["GC603"]

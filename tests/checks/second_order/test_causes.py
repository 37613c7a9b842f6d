"""The function that loses a second derivative, and its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks import examination
from tests.checks.making import examined
from tests.checks.second_order.test_compositions import SECOND, Detached, Half, Sine, X


class Saving(torch.autograd.Function):
    """exp(x)^2, whose backward reads the exponential that its forward computed on the way."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        e = torch.exp(x)
        ctx.save_for_backward(x, e)
        return e * e

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, e = ctx.saved_tensors
        return 2 * g * e * torch.exp(x)


def test_a_saved_intermediate_is_named_with_its_line() -> None:
    (found,) = examined(Saving, {"x": X}, modes=SECOND).findings
    assert found.code == "GC106"
    assert "`Saving` saves a value of its forward that is neither an input nor" in found.message
    assert found.place is not None
    assert found.place.text == "ctx.save_for_backward(x, e)"


def test_forward_mode_does_not_differentiate_a_jvp_in_pytorch() -> None:
    """github.com/pytorch/pytorch/issues/197867"""
    modes = ("reverse", "forward", "reverse-over-forward", "forward-over-forward")
    layer = "compositions.py:ForwardOverReverse"
    (found,) = examined(layer, {"x": X}, modes=modes).findings
    assert (found.code, found.mode) == ("GC106", "forward-over-forward")
    assert "does not differentiate the jvp of `ForwardOverReverse`" in found.message


class Kept(Sine):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = torch.cos(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.slope


class Data(Sine):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * torch.cos(ctx.saved_tensors[0].data)


class Measured(Sine):
    """x / |x|, whose norm is a number."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.norm = x.norm().item()
        y = x / ctx.norm
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return (g - y * (y * g).sum()) / ctx.norm


class Twice(torch.autograd.Function):
    """It makes numbers of tensors, and keeps none; its backward counts twice when it is
    differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() ** 3)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (6 * x**2 - 3 * x.detach() ** 2)


@pytest.mark.parametrize(
    ("layer", "text", "words"),
    [
        (Kept, "ctx.slope = torch.cos(x)", "`Kept` saves a value of its forward"),
        (Data, "ctx.saved_tensors[0].data", "`Data` stops the gradient of a value"),
        (Detached, "ctx.saved_tensors[0].detach()", "`Detached` stops the gradient of a value"),
        (Twice, "x.detach()", "`Twice` stops the gradient of a value"),
        (Measured, "x.norm().item()", "`Measured` stops the gradient of a value"),
        (Half, "g * Half.slope(ctx.saved_tensors[0])", "`Half` is the only custom function"),
    ],
)
def test_the_line_that_loses_a_second_derivative(layer: Any, text: str, words: str) -> None:
    (found,) = examined(layer, {"x": X}, modes=SECOND).findings
    assert words in found.message
    assert found.place is not None
    assert found.place.text == text


class Slope(torch.autograd.Function):
    """g cos(x), with the wrong sign in its derivative by x."""

    @staticmethod
    def forward(ctx: Any, g: Any, x: Any) -> Any:
        ctx.save_for_backward(g, x)
        return g * torch.cos(x)

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        g, x = ctx.saved_tensors
        return y_bar * torch.cos(x), y_bar * g * torch.sin(x)


class Nested(Sine):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Slope.apply(g, *ctx.saved_tensors)


def test_a_function_that_a_backward_calls_is_named() -> None:
    (found,) = examined(Nested, {"x": X}, modes=SECOND).findings
    assert found.message.endswith("a backward calls `Slope`, whose own derivative is wrong")
    assert found.place is not None
    assert found.place.text == "y_bar * g * torch.sin(x)"


def test_an_operation_whose_second_derivative_is_nan_is_named() -> None:
    def sampled(x: Any) -> Any:
        return torch.sinc(x) + x

    x = torch.zeros(1, dtype=torch.float64).numpy()
    answer = examined(sampled, {"x": x}, modes=SECOND)
    (found,) = [one for one in answer.findings if one.severity == "error"]
    assert found.code == "GC201"
    assert found.message.endswith("in isolation, `aten.sinc` is wrong, too")
    assert found.place is not None
    assert found.place.text == "torch.sinc(x)"


def test_the_only_operation_of_a_layer_is_not_examined_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examination, "call_problem", None)
    x = torch.zeros(1, dtype=torch.float64).numpy()
    answer = examined(torch.sinc, {"x": x}, modes=SECOND)
    (found,) = [one for one in answer.findings if one.severity == "error"]
    assert found.code == "GC201"
    assert found.message.endswith("in isolation, `aten.sinc` is wrong, too")


def test_a_layer_that_cannot_be_recorded_has_its_finding() -> None:
    """The gradient of sparse values has no graph: PyTorch loses the mixed second derivative."""

    def layer(v: Any, x: Any) -> Any:
        places = torch.tensor([[0, 1, 1], [0, 0, 1]])
        return torch.sparse.mm(torch.sparse_coo_tensor(places, v, (2, 2)), x)

    values = {"v": np.array([0.5, -1.2, 2.0]), "x": np.array([[1.5], [-0.7]])}
    answer = examined(layer, values, modes=SECOND)
    assert answer.failure is None
    (found,) = [one for one in answer.findings if one.severity == "error"]
    assert (found.code, found.input) == ("GC106", "x.v")
    assert any("its operations could not be examined" in note for note in answer.notes)


class Flat(torch.autograd.Function):
    """cosh, whose backward returns a plain 0 at 0: its derivative there is lost."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.cosh(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.where(x == 0, 0.0, torch.sinh(x))


@pytest.mark.parametrize("size", [1.0, 1e15])
def test_a_zero_beside_a_large_constant_is_wrong_and_no_underflow(size: float) -> None:
    """Of the size of a constant nothing moves: it absorbs nothing."""

    def layer(x: Any) -> Any:
        return Flat.apply(x) + x**3 / (size * torch.arange(1.0, 3.0, dtype=x.dtype))

    modes = ("reverse", "reverse-over-reverse")
    answer = examined(layer, {"x": torch.zeros(2).double().numpy()}, modes=modes)
    assert {(one.code, one.mode) for one in answer.findings} == {("GC106", modes[1])}

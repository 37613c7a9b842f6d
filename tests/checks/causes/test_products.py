"""One product of a Jacobian for each input, compared with differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.causes.products import difference, wrong_products
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest
from tests.checks.making import SPAN, torch_engine

X, W = np.linspace(-1.0, 2.0, 6), np.linspace(0.5, 1.5, 6)


class Product(torch.autograd.Function):
    """x sin(w); the gradient of `w` is `factor` of the right one, in both modes."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)
        return x * torch.sin(w)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * torch.sin(w), Product.factor * g * x * torch.cos(w)

    @staticmethod
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        x, w = ctx.saved_tensors
        return x_dot * torch.sin(w) + Product.factor * w_dot * x * torch.cos(w)


def subject(layer: Any, **values: np.ndarray) -> Subject:
    implementation = Implementation("torch", "layer", ".", SPAN, live=layer)
    request = SubjectRequest(implementation, values, "float64", "float64")
    return torch_engine().subject(request)


modes = pytest.mark.parametrize("mode", ["reverse", "forward"])


@modes
def test_a_right_layer_has_no_wrong_product(mode: Mode) -> None:
    assert wrong_products(subject(Product.apply, x=X, w=W), 0, mode) == []


@modes
@pytest.mark.parametrize("factor", [0.5, -1.0, 3.0])
def test_a_factor_is_named_with_the_input_that_has_it(
    factor: float, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Product, "factor", factor)
    (found,) = wrong_products(subject(Product.apply, x=X, w=W), 0, mode)
    assert (found.leaf, found.factor) == ("w", factor)
    assert found.stated == pytest.approx(factor * found.right)


def test_what_is_wrong_in_one_entry_alone_has_no_factor() -> None:
    def layer(x: Any) -> Any:
        if x.requires_grad:
            x.register_hook(lambda g: g * torch.tensor([1.0, 1, 1, 1, 1, 2]).to(g))
        return torch.sin(x)

    (found,) = wrong_products(subject(layer, x=X), 0, "reverse")
    assert (found.leaf, found.factor) == ("x", None)


def test_a_cut_gradient_is_a_product_of_zero() -> None:
    (found,) = wrong_products(
        subject(lambda x, w: x * torch.sin(w.detach()), x=X, w=W), 0, "reverse"
    )
    assert (found.leaf, found.stated, found.factor) == ("w", 0.0, 0.0)


def test_a_difference_holds_the_derivative_within_its_bar() -> None:
    right, bar = difference(
        subject(lambda x: torch.exp(x), x=X), "x", X, np.ones(6), np.arange(6.0)
    )
    assert 0 < bar < 1e-6
    assert abs(right - np.arange(6.0) @ np.exp(X)) <= 8 * bar


def test_an_argument_that_rounding_absorbs_proves_nothing() -> None:
    """The last step of Newton's iteration moves no digit of the root."""
    with_step = subject(lambda x, step: x - step, x=X + 2, step=1e-16 * W)
    assert not wrong_products(with_step, 0, "reverse")
    with_step.close()


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0, -9.0, 10.0])
def test_any_slope_of_a_kink_may_be_right(slope: float) -> None:
    class Ramp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.relu(x - 0.7) + torch.sin(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * (torch.where(x == 0.7, slope, 1.0 * (x > 0.7)) + torch.cos(x))

    x = np.array([0.7, 0.3, 1.9, -1.0])
    assert wrong_products(subject(Ramp.apply, x=x), 0, "reverse")
    found = wrong_products(subject(Ramp.apply, x=x), 0, "reverse", kinks=False)
    assert bool(found) == (not 0 <= slope <= 1)
    assert wrong_products(subject(Ramp.apply, x=x + 1e-3), 0, "reverse", kinks=False) == []

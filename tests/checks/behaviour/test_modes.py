import numpy as np
import torch

from gradcheck_cli.domain.implementation import Surrogate
from tests.checks.making import SPAN, behaviour

X = {"x": np.array([0.7, -1.3, 0.0])}


def cube(*, forward=1.0, backward=lambda x, g: 3 * x**2 * g):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return backward(ctx.saved_tensors[0], g)

        @staticmethod
        def jvp(ctx, x_dot):
            return forward * 3 * ctx.saved_tensors[0] ** 2 * x_dot

    return Cube


def test_modes_that_disagree() -> None:
    assert list(behaviour(cube(forward=1.0001), X)) == ["GC105"]
    assert behaviour(cube(), X) == {}
    assert behaviour(cube(forward=2.0), X, modes=("reverse",)) == {}
    declared = Surrogate("x ** 3 * 2", "another slope", SPAN)
    assert behaviour(cube(forward=2.0), X, surrogates=(declared,)) == {}


def test_an_output_that_is_no_number_says_nothing_of_the_others() -> None:
    def with_nan(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.exp(x) * x.flip(0), torch.full((1,), torch.nan)])

    assert behaviour(with_nan, X) == {}


def test_what_rounding_leaves_of_tiny_derivatives_is_no_disagreement() -> None:
    """Where a softmax is certain, 1 - p is nothing but rounding, another one in each mode."""
    logits = {"x": np.array([[50.0, 0.0, -50.0], [0.0, -50.0, 50.0]])}

    def dice(x: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(x, -1)
        return 1 - 2 * p[:, 0].sum() / (p.sum() + 2 + 1e-8)

    assert behaviour(dice, logits) == {}

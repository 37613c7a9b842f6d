"""Zeros of a backward that forgets a part, and zeros that rounding makes of a right one."""

import torch
from torch.nn import functional as F

from gradcheck_cli.layers import examine
from tests.layers.making import layer_problem, torch_engine


class Diagonal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = F.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return y_bar * y * (1 - y)


class Saturated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1 / torch.cosh(x) ** 2

    @staticmethod
    def backward(ctx, y_bar):
        y = torch.tanh(ctx.saved_tensors[0])
        return y_bar * -2 * y * (1 - y**2)


def codes(layer, x, dtype) -> set[str]:
    modes = ("reverse",)
    answer = examine(torch_engine(), layer_problem(layer, {"x": x}, dtype=dtype, modes=modes))
    return {finding.code for finding in answer.findings}


def test_a_part_that_no_point_fills_is_forgotten() -> None:
    for dtype in ("float32", "float64"):
        assert codes(Diagonal, [0.3, -1.2, 0.7], dtype) == {"GC101"}


def test_a_part_that_only_rounding_empties_is_underflow() -> None:
    assert codes(Saturated, [20.0, 1.0], "float32") == {"GC302"}  # zero in float64, too

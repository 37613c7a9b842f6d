"""Functions with a wrong gradient, used by several tests."""

from __future__ import annotations

from typing import Any

import torch


class FlushedTail(torch.autograd.Function):
    """A sigmoid whose gradient is cut off where the value is below 1e-15, which no finite
    difference shows."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return torch.where(y < 1e-15, torch.zeros_like(g), g * y * (1 - y))

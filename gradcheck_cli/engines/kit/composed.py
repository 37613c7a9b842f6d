"""What PyTorch and TensorFlow lack alike, composed of what both call by the same names."""

from __future__ import annotations

from typing import Any


def cbrt(framework: Any, x: Any) -> Any:
    """|x|^(1/3) with the sign of x. One third is no floating-point number, which costs far out as
    many digits as log|x| has: one step of Newton's method for y^3 = |x| brings them back."""
    right = x >= 0
    size = framework.where(right, x, -x)
    y = size ** (1 / 3)
    safe = framework.where(size > 0, y, framework.ones_like(y))
    step = framework.where(size > 0, (y - size / safe / safe) / 3, framework.zeros_like(y))
    return framework.where(right, y - step, step - y)

"""Arithmetic."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


def cbrt(torch: Any, x: Any) -> Any:
    """|x|^(1/3) with the sign of x. One third is no floating-point number, which costs far out as
    many digits as log|x| has: one step of Newton's method for y^3 = |x| brings them back."""
    right = x >= 0
    size = torch.where(right, x, -x)
    y = size ** (1 / 3)
    safe = torch.where(size > 0, y, torch.ones_like(y))
    step = torch.where(size > 0, (y - size / safe / safe) / 3, torch.zeros_like(y))
    return torch.where(right, y - step, step - y)


ROWS: dict[str, Lowering] = {
    "abs": "abs",
    "cbrt": cbrt,
    "hypot": "hypot",
    "reciprocal": "reciprocal",
    "remainder": "remainder",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "square": "square",
}

"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def log1mexp(torch: Any, x: Any) -> Any:
    """In two branches (Maechler 2012), each of which sees only what is its own."""
    near = x < math.log(2)
    one = torch.ones_like(x)
    below = torch.log(-torch.expm1(-torch.where(near, x, one)))
    above = torch.log1p(-torch.exp(-torch.where(near, one, x)))
    return torch.where(near, below, above)


ROWS: dict[str, Lowering] = {
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log10": "log10",
    "log1mexp": log1mexp,
    "log1p": "log1p",
    "log2": "log2",
    "logaddexp": "logaddexp",
    "sigmoid": "sigmoid",
    "softplus": "nn.functional.softplus",
    "tanh": "tanh",
    "xlog1py": "special.xlog1py",
    "xlogy": "xlogy",
}

"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

from gradcheck_cli.engines.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "exp": "exp",
    "expm1": "math.expm1",
    "log": "math.log",
    "log1p": "math.log1p",
    "sigmoid": "sigmoid",
    "softplus": "nn.softplus",
    "tanh": "tanh",
}

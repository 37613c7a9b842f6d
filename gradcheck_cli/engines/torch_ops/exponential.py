"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

from gradcheck_cli.engines.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "sigmoid": "sigmoid",
    "softplus": "nn.functional.softplus",
    "tanh": "tanh",
}

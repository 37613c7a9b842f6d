"""Activation functions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def gelu(torch: Any, x: Any, approximate: bool = False) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh" if approximate else "none")


def hardtanh(torch: Any, x: Any, min: float = -1.0, max: float = 1.0) -> Any:
    return torch.nn.functional.hardtanh(x, min, max)


ROWS: dict[str, Lowering] = {
    "elu": "nn.functional.elu",
    "gelu": gelu,
    "hardtanh": hardtanh,
    "leaky_relu": "nn.functional.leaky_relu",
    "log_sigmoid": "nn.functional.logsigmoid",
    "mish": "nn.functional.mish",
    "selu": "nn.functional.selu",
    "silu": "nn.functional.silu",
    "softsign": "nn.functional.softsign",
}

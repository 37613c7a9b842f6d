"""Activation functions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def gelu(jax: Any, x: Any, approximate: bool = False) -> Any:
    """jax.nn.gelu approximates unless told otherwise."""
    return jax.nn.gelu(x, approximate=approximate)


def hardtanh(jax: Any, x: Any, min: float = -1.0, max: float = 1.0) -> Any:
    """jax.nn.hard_tanh has fixed bounds."""
    return jax.numpy.clip(x, min, max)


ROWS: dict[str, Lowering] = {
    "elu": "nn.elu",
    "gelu": gelu,
    "hardtanh": hardtanh,
    "leaky_relu": "nn.leaky_relu",
    "log_sigmoid": "nn.log_sigmoid",
    "mish": "nn.mish",
    "selu": "nn.selu",
    "silu": "nn.silu",
    "softsign": "nn.soft_sign",
}

"""Activation functions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.ops.selection import clip
from gradcheck_cli.engines.symbolic.ops.special import ndtr

# Klambauer et al., Self-Normalizing Neural Networks, 2017
_SELU_SCALE = "1.0507009873554804934193349852946"
_SELU_ALPHA = "1.6732632423543772848170429916717"


def elu(sympy: Any, x: Any, alpha: Any) -> Any:
    return sympy.Piecewise((x, x > 0), (alpha * (sympy.exp(x) - 1), True))


def selu(sympy: Any, x: Any) -> Any:
    return sympy.Rational(_SELU_SCALE) * elu(sympy, x, sympy.Rational(_SELU_ALPHA))


def gelu(sympy: Any, x: Any, approximate: bool) -> Any:
    if not approximate:
        return x * ndtr(sympy, x)
    inner = x + sympy.Rational("0.044715") * x**3
    return x * (1 + sympy.tanh(sympy.sqrt(2 / sympy.pi) * inner)) / 2


def softsign(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return x / (1 + Size(x))


ROWS: dict[str, Lowering] = {
    "elu": elu,
    "gelu": gelu,
    "hardtanh": clip,
    "leaky_relu": lambda sympy, x, negative_slope: sympy.Piecewise(
        (x, x > 0), (negative_slope * x, True)
    ),
    "log_sigmoid": lambda sympy, x: -sympy.log(1 + sympy.exp(-x)),
    "mish": lambda sympy, x: x * sympy.tanh(sympy.log(1 + sympy.exp(x))),
    "selu": selu,
    "silu": lambda sympy, x: x / (1 + sympy.exp(-x)),
    "softsign": softsign,
}

"""Normalised exponentials."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import along, each


def logsumexp(sympy: Any, x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    return along(lambda xs: sympy.log(sum(map(sympy.exp, xs))), x, axis, keepdims)


def softmax(sympy: Any, x: Any, axis: int = -1) -> Any:
    return each(sympy.exp, x) / along(lambda xs: sum(map(sympy.exp, xs)), x, axis, True)


def log_softmax(sympy: Any, x: Any, axis: int = -1) -> Any:
    return x - logsumexp(sympy, x, axis, True)


ROWS: dict[str, Lowering] = {
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "softmax": softmax,
}

"""The gamma function and its relatives."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def lgamma(sympy: Any, x: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import LogGamma

    return LogGamma(x)


def betaln(sympy: Any, x: Any, y: Any) -> Any:
    return lgamma(sympy, x) + lgamma(sympy, y) - lgamma(sympy, x + y)


ROWS: dict[str, Lowering] = {
    "betaln": betaln,
    "digamma": lambda sympy, x: sympy.polygamma(0, x),
    "lgamma": lgamma,
    "polygamma": lambda sympy, x, n: sympy.polygamma(n, x),
}

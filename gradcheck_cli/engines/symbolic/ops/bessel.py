"""Modified Bessel functions."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _scaled(order: int) -> Lowering:
    def scaled(sympy: Any, x: Any) -> Any:
        from gradcheck_cli.engines.symbolic.functions import Size

        return sympy.exp(-Size(x)) * sympy.besseli(order, x)

    return scaled


ROWS: dict[str, Lowering] = {
    "i0": lambda sympy, x: sympy.besseli(0, x),
    "i0e": _scaled(0),
    "i1": lambda sympy, x: sympy.besseli(1, x),
    "i1e": _scaled(1),
}

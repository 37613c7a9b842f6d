"""Variance and standard deviation."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import along, each


def var(sympy: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    def spread(xs: Any) -> Any:
        mean = sum(xs) / sympy.Integer(len(xs))
        return sum((one - mean) ** 2 for one in xs) / (len(xs) - sympy.nsimplify(correction))

    return along(spread, x, axis, keepdims)


ROWS: dict[str, Lowering] = {
    "std": lambda sympy, x, **keywords: each(sympy.sqrt, var(sympy, x, **keywords)),
    "var": var,
}

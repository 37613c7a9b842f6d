"""Lengths of vectors."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import along
from gradcheck_cli.engines.symbolic.ops.selection import maximum, minimum


def norm(sympy: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    def length(xs: Any) -> Any:
        if ord == 2:
            return sympy.sqrt(sum(one**2 for one in xs))
        if abs(ord) == float("inf"):
            choose = maximum if ord > 0 else minimum
            return choose(sympy, *map(Size, xs))
        order = sympy.nsimplify(ord)
        return sum(Size(one) ** order for one in xs) ** (1 / order)

    return along(length, x, axis, keepdims)


ROWS: dict[str, Lowering] = {"norm": norm}

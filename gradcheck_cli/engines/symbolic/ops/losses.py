"""Losses."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import each, reduced
from gradcheck_cli.engines.symbolic.ops.exponential import xlogy


def _elementwise(term: Any) -> Lowering:
    """A loss whose terms come from pairs of entries; `reduction` says what becomes of them."""

    def loss(sympy: Any, x: Any, y: Any, reduction: str = "mean", **keywords: Any) -> Any:
        return reduced(each(lambda a, b: term(sympy, a, b, **keywords), x, y), reduction)

    return loss


def l1(sympy: Any, x: Any, y: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Size

    return Size(x - y)


def huber(sympy: Any, x: Any, y: Any, delta: Any) -> Any:
    size = l1(sympy, x, y)
    return sympy.Piecewise((size**2 / 2, size <= delta), (delta * (size - delta / 2), True))


def hinge(sympy: Any, x: Any, y: Any) -> Any:
    return sympy.Piecewise((1 - x * y, x * y < 1), (0, True))


def bce(sympy: Any, p: Any, y: Any) -> Any:
    return -(xlogy(sympy, y, p) + xlogy(sympy, 1 - y, 1 - p))


def bce_with_logits(sympy: Any, x: Any, y: Any) -> Any:
    return y * sympy.log(1 + sympy.exp(-x)) + (1 - y) * sympy.log(1 + sympy.exp(x))


def kl_div(sympy: Any, log_p: Any, q: Any) -> Any:
    return sympy.Piecewise((0, sympy.Eq(q, 0)), (q * (sympy.log(q) - log_p), True))


ROWS: dict[str, Lowering] = {
    "bce": _elementwise(bce),
    "bce_with_logits": _elementwise(bce_with_logits),
    "hinge": _elementwise(hinge),
    "huber": _elementwise(huber),
    "kl_div": _elementwise(kl_div),
    "l1": _elementwise(l1),
    "mse": _elementwise(lambda sympy, x, y: (x - y) ** 2),
}

"""Layers of networks."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import each, transposed
from gradcheck_cli.engines.symbolic.ops.neural import softmax


def dropout(sympy: Any, x: Any, mask: Any, rate: Any) -> Any:
    return each(lambda a, kept: sympy.Piecewise((a / (1 - rate), kept), (0, True)), x, mask)


def attention(
    sympy: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: Any = None
) -> Any:
    scale = 1 / sympy.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q @ transposed(k)) * scale
    if is_causal:
        for row in range(scores.shape[-2]):
            scores[..., row, row + 1 :] = -sympy.oo
    return softmax(sympy, scores) @ v


ROWS: dict[str, Lowering] = {
    "dropout": dropout,
    "linear": lambda sympy, x, w, b: x @ transposed(w) + b,
    "scaled_dot_product_attention": attention,
}

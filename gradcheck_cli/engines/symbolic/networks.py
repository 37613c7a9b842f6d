"""Rows of the op table (`ops`) about neural networks: layers, normalised exponentials, losses."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import absolute, entrywise, reduce_along, reduced

# Normalised exponentials


def logsumexp(sympy: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return reduce_along(lambda xs: sympy.log(sum(map(sympy.exp, xs))), x, axis, keepdims)


def softmax(sympy: Any, x: Any, axis: int) -> Any:
    return entrywise(sympy.exp, x) / reduce_along(lambda xs: sum(map(sympy.exp, xs)), x, axis, True)


def log_softmax(sympy: Any, x: Any, axis: int) -> Any:
    return x - logsumexp(sympy, x, axis, True)


# Layers of networks


def dropout(sympy: Any, x: Any, mask: Any, rate: Any) -> Any:
    return entrywise(lambda a, kept: sympy.Piecewise((a / (1 - rate), kept), (0, True)), x, mask)


def attention(sympy: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: Any) -> Any:
    scale = 1 / sympy.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q @ k.mT) * scale
    if is_causal:
        for row in range(scores.shape[-2]):
            scores[..., row, row + 1 :] = -sympy.oo
    return softmax(sympy, scores, -1) @ v


# Losses


def elementwise(term: Any) -> Lowering:
    """A loss with one term for each pair of entries, combined by `reduction`."""

    def loss(sympy: Any, x: Any, y: Any, reduction: str, **keywords: Any) -> Any:
        return reduced(entrywise(lambda a, b: term(sympy, a, b, **keywords), x, y), reduction)

    return loss


def huber(sympy: Any, x: Any, y: Any, delta: Any) -> Any:
    size = absolute(sympy, x - y)
    return sympy.Piecewise((size**2 / 2, size <= delta), (delta * (size - delta / 2), True))


def hinge(sympy: Any, x: Any, y: Any) -> Any:
    return sympy.Piecewise((1 - x * y, x * y < 1), (0, True))


def bce_with_logits(sympy: Any, x: Any, y: Any) -> Any:
    return y * sympy.log(1 + sympy.exp(-x)) + (1 - y) * sympy.log(1 + sympy.exp(x))


def kl_div(sympy: Any, log_p: Any, q: Any) -> Any:
    return sympy.Piecewise((0, sympy.Eq(q, 0)), (q * (sympy.log(q) - log_p), True))

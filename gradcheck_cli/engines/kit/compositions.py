"""Operations that several frameworks lack, composed of rows that they have: `xp.log` is the
engine's own `log`.

Engines share a composition only if users of the frameworks write the same calls. If a framework has
its own function (`torch.nn.functional.huber_loss`), the table of its engine names it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Functions of one array


def cbrt(xp: Any, x: Any) -> Any:
    """|x|^(1/3) with the sign of x. One third is not a floating-point number, and far from 1 this
    costs as many digits as log|x| has. One step of Newton's method for y^3 = |x| restores them."""
    right = x >= 0
    size = xp.where(right, x, -x)
    y = size ** (1 / 3)
    safe = xp.where(size > 0, y, xp.ones_like(y))
    step = xp.where(size > 0, (y - size / safe / safe) / 3, xp.zeros_like(y))
    return xp.where(right, y - step, step - y)


def log1mexp(xp: Any, x: Any) -> Any:
    """In two branches (Maechler 2012), each of which only sees its own numbers."""
    near = x < math.log(2)
    one = xp.ones_like(x)
    below = xp.log(-xp.expm1(-xp.where(near, x, one)))
    above = xp.log1p(-xp.exp(-xp.where(near, one, x)))
    return xp.where(near, below, above)


def getitem(xp: Any, x: Any, index: tuple[Any, ...]) -> Any:
    return x[index]


# The terms of losses


def bce(xp: Any, p: Any, y: Any) -> Any:
    return -(y * xp.log(p) + (1 - y) * xp.log1p(-p))


def hinge(xp: Any, x: Any, y: Any) -> Any:
    return xp.relu(1 - x * y)


def huber(xp: Any, x: Any, y: Any, delta: float) -> Any:
    error = x - y
    size = xp.abs(error)
    square, line = 0.5 * xp.square(error), delta * size - 0.5 * delta**2
    return xp.where(size <= delta, square, line)


def kl_div(xp: Any, log_p: Any, q: Any) -> Any:
    return xp.xlogy(q, q) - q * log_p


def l1(xp: Any, x: Any, y: Any) -> Any:
    return xp.abs(x - y)


def classes_last(xp: Any, x: Any) -> Any:
    """The array with axis 1 moved to the end. A single axis stays."""
    return xp.moveaxis(x, source=1, destination=-1) if len(x.shape) > 2 else x


def soft_cross_entropy(xp: Any, logits: Any, probabilities: Any, label_smoothing: float) -> Any:
    logits, q = classes_last(xp, logits), classes_last(xp, probabilities)
    if label_smoothing:
        q = q * (1 - label_smoothing) + label_smoothing / logits.shape[-1]
    return -xp.sum(q * xp.log_softmax(logits, axis=-1), axis=-1)


# Directions of vectors, and how near they are


def cosine_similarity(xp: Any, x1: Any, x2: Any, axis: int, eps: float) -> Any:
    shape = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    both = (xp.broadcast_to(x, shape=shape) for x in (x1, x2))
    first, second = (xp.normalize(x, ord=2, axis=axis, eps=eps) for x in both)
    return xp.sum(first * second, axis=axis)


def triplet_excess(
    xp: Any, anchor: Any, positive: Any, negative: Any, margin: float, ord: float, eps: float
) -> Any:
    """How much less than the margin the negative is farther away than the positive."""
    near = xp.norm(anchor - positive + eps, ord=ord, axis=-1)
    far = xp.norm(anchor - negative + eps, ord=ord, axis=-1)
    return margin + near - far

"""Directions of vectors, and measures of their similarity."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.op import Composite, Point, Rounding, composite
from reference_engine.ops.arithmetic import divide
from reference_engine.ops.losses import REDUCED, any_kink, reduced
from reference_engine.ops.norms import norm
from reference_engine.ops.reductions import sum_
from reference_engine.ops.selection import clip, relu
from reference_engine.ops.shape import broadcast_to
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "inputs"


def _normalize(x: Value, *, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Value:
    return divide(x, clip(norm(x, ord=ord, axis=axis, keepdims=True), min=eps))


def _normalize_kinks(x: Any, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Any:
    """A mask of kinks: the length equals eps or, for eps = 0 and for sums of |x|, has a kink
    itself."""
    length = norm.value(x, ord=ord, axis=axis, keepdims=True)
    own = norm.at_kink(x, ord=ord, axis=axis, keepdims=True)
    assert own is not None
    return np.broadcast_to((length == eps) | (own & (length > eps)), np.shape(x))


normalize: Composite = composite(
    "normalize",
    _normalize,
    points=(
        Point(
            "norm(x) = eps",
            "kink",
            ([3.0, 4.0],),
            ([0.032, -0.024],),
            {"eps": 5.0},
            value=[0.6, 0.8],
        ).because("the side of the longer vectors, as for clip", jax=([0.116, 0.088],)),
        Point(
            "x = 0",
            "limit",
            ([0.0, 0.0],),
            ([1e12, 1e12],),
            value=[0.0, 0.0],
            differs={"jax": ([np.nan, np.nan],)},
        ),
    ),
    kinks_at=_normalize_kinks,
    rounding="result",
).says(
    "x / max(norm(x, ord), eps) along an axis (the last one; PyTorch's default is axis 1)",
    "with y = x / norm(x), for ord = 2: y_dot = (x_dot - y sum(y x_dot)) / norm(x); "
    "x_dot / eps where the norm is less than eps",
    stability="the norm is scaled, so that no square overflows or underflows",
    source="torch.nn.functional.normalize",
)


def _cosine(x1: Value, x2: Value, *, axis: int = -1, eps: float = 1e-8) -> Value:
    shape = np.broadcast_shapes(shape_of(x1), shape_of(x2))
    first, second = (
        _normalize(x if shape_of(x) == shape else broadcast_to(x, shape=shape), axis=axis, eps=eps)
        for x in (x1, x2)
    )
    return sum_(first * second, axis=axis)


def _cosine_kinks(x1: Any, x2: Any, axis: int = -1, eps: float = 1e-8) -> Any:
    lengths = [norm.value(x, axis=axis) == eps for x in np.broadcast_arrays(x1, x2)]
    return np.logical_or(*lengths)


cosine_similarity: Composite = composite(
    "cosine_similarity",
    _cosine,
    points=(
        Point(
            "norm(x1) = eps",
            "kink",
            ([3.0, 0.0], [0.0, 4.0]),
            ([0.0, 1 / 3], [0.25, 0.0]),
            {"eps": 3.0},
            value=0.0,
        ),
        Point(
            "x1 = 0", "limit", ([0.0, 0.0], [3.0, 4.0]), ([0.6e8, 0.8e8], [0.0, 0.0]), value=0.0
        ).because("linear in x1 where norm(x1) < eps", jax=([np.nan, np.nan], [0.0, 0.0])),
        Point(
            "0 < norm(x1) < eps",
            "limit",
            ([0.5, 0.0], [3.0, 4.0]),
            ([0.6, 0.8], [0.064, -0.048]),
            {"eps": 1.0},
            value=0.3,
        ).because(
            "PyTorch bounds the norm out of sight of its autograd, which goes on as if the "
            "norm were not bounded",
            torch=([0.3, 0.8], [0.064, -0.048]),
        ),
        Point(
            "the squares overflow",
            "limit",
            ([1e200, 0.0], [3e200, 4e200]),
            ([0.0, 0.8e-200], [0.128e-200, -0.096e-200]),
        ).because(
            "the norms are inf in the frameworks, and the cosine 0",
            frameworks=([0.0, 0.0], [0.0, 0.0]),
        ),
    ),
    kinks_at=_cosine_kinks,
).says(
    "sum(x1 x2) / (max(norm(x1), eps) max(norm(x2), eps)) along an axis (the last one; "
    "PyTorch's default is axis 1)",
    "(x2 / norm(x2) - y x1 / norm(x1)) / norm(x1), and the same with both exchanged",
    stability="the vectors are normalised before they are multiplied, by norms that are scaled: "
    "sum(x1 x2) overflows and underflows",
    source="torch.nn.functional.cosine_similarity",
)


def _triplet_margin(
    anchor: Value, positive: Value, negative: Value, margin: float, ord: float, eps: float
) -> Value:
    near = norm(anchor - positive + eps, ord=ord, axis=-1)
    far = norm(anchor - negative + eps, ord=ord, axis=-1)
    return margin + near - far


def _triplet(
    anchor: Value,
    positive: Value,
    negative: Value,
    *,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Value:
    return reduced(relu(_triplet_margin(anchor, positive, negative, margin, ord, eps)), reduction)


def _triplet_kinks(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """A mask of kinks: the loss begins, or the loss is positive and a distance has a kink."""
    cost = _triplet_margin(anchor, positive, negative, margin, ord, eps)
    kinks: Any = np.equal(cost, 0)
    for other in (positive, negative):
        own = norm.at_kink(anchor - other + eps, ord=ord, axis=-1)
        kinks = kinks | (np.greater(cost, 0) & own)
    return any_kink(kinks, reduction)


triplet: Composite = composite(
    "triplet",
    _triplet,
    aliases=("triplet_loss", "triplet_margin_loss"),
    points=(
        Point(
            "margin + near = far",
            "kink",
            ([0.0, 0.0], [1.0, 0.0], [2.0, 0.0]),
            ([0.0, 0.0], [0.0, 0.0], [0.0, 0.0]),
            {"eps": 0.0},
            value=0.0,
        ).because(
            "0 is the least subgradient; the frameworks take the other side",
            **dict.fromkeys(("torch", "tensorflow"), ([0.0, 0.0], [1.0, 0.0], [-1.0, 0.0])),
        ),
        Point(
            "anchor = positive, eps = 0",
            "kink",
            ([0.0, 0.0], [0.0, 0.0], [0.5, 0.0]),
            ([1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]),
            {"eps": 0.0},
            value=0.5,
        ).because(
            "0 is the subgradient of least norm of the distance; that of tf.norm is 0 / 0",
            tensorflow=([np.nan, np.nan], [np.nan, np.nan], [-1.0, 0.0]),
            jax=([np.nan, np.nan], [np.nan, np.nan], [-1.0, 0.0]),
        ),
    ),
    kinks_at=_triplet_kinks,
).says(
    "max(0, margin + norm(anchor - positive + eps) - norm(anchor - negative + eps)), the "
    "norms of order `ord` along the last axis" + REDUCED,
    "where it is positive, that of its norms: the directions of the two differences",
    source="torch.nn.functional.triplet_margin_loss",
)

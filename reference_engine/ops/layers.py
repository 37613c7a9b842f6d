"""Layers of networks: affine maps, dropout, embedding, attention."""

from __future__ import annotations

import numpy as np

from reference_engine.arithmetic.constants import inverse_square_root
from reference_engine.errors import Shape, ShapeError
from reference_engine.op import Composite, Point, composite
from reference_engine.ops.arithmetic import divide
from reference_engine.ops.indexing import getitem
from reference_engine.ops.linalg import matmul, swapped
from reference_engine.ops.neural import softmax
from reference_engine.ops.selection import where
from reference_engine.traced import Value, shape_of, to_array


def _linear(x: Value, w: Value, b: Value) -> Value:
    if len(shape_of(w)) != 2:
        raise ValueError("w must be a matrix")
    return matmul(x, swapped(w)) + b


linear: Composite = composite("linear", _linear, rounding="sums").says(
    "x @ transpose(w) + b, of shapes (..., n), (m, n) and (m,)",
    "linear in x, in w and in b; transposed: y_bar w, transpose(y_bar) x, the sum of "
    "y_bar over the rows",
    source="torch.nn.functional.linear",
)


def _dropout(x: Value, mask: Value, *, rate: float = 0.5) -> Value:
    return divide(where(mask, x, 0.0), 1 - rate)


dropout: Composite = composite("dropout", _dropout, kinds={1: "bool"}).says(
    "x / (1 - rate) where the given mask is true, else 0",
    "1 / (1 - rate) where the mask is true, else 0",
    domain="0 <= rate < 1",
    stability="elements are selected, not multiplied by 0: what is inf or nan and dropped is gone",
    source="Srivastava et al., Dropout (JMLR 15, 2014)",
)


def _embedding(indices: Value, weight: Value) -> Value:
    if len(shape_of(weight)) != 2:
        raise ValueError("weight must be a matrix with one row a symbol")
    rows = shape_of(weight)[0]
    at = to_array(indices)
    known = (at >= 0) & (at < rows)
    found = getitem(weight, index=(np.where(known, at, 0),))
    return found if known.all() else where(known[..., None], found, np.nan)


def _embedding_shape(indices: Shape, weight: Shape) -> Shape:
    if len(weight) != 2:
        reason = "weight must be a matrix with one row a symbol"
        raise ShapeError("embedding", (indices, weight), reason)
    return (*indices, weight[1])


embedding: Composite = composite(
    "embedding", _embedding, kinds={0: "int"}, rounding="none", result_shape=_embedding_shape
).says(
    "the rows of the matrix weight at the indices, of shape (*indices, columns); nan for "
    "an index that weight does not have",
    "linear in weight; transposed: add each row where it was taken from",
    domain="0 <= indices < number of rows",
    source="torch.nn.functional.embedding",
)


def _scores(q: Value, k: Value, scale: float | None) -> Value:
    length = shape_of(q)[-1]
    return matmul(q, swapped(k)) * (inverse_square_root(length) if scale is None else scale)


def _masked(q: Value, k: Value, v: Value, mask: Value, scale: float | None = None) -> Value:
    """Attention with a mask. A row without any key is zero: all its scores are let through, and its
    result is dropped."""
    mask = to_array(mask)
    empty = ~np.any(mask, axis=-1, keepdims=True)
    weights = softmax(where(mask | empty, _scores(q, k, scale), -np.inf))
    return matmul(where(mask, weights, 0.0) if empty.any() else weights, v)


def _attention(
    q: Value, k: Value, v: Value, *, is_causal: bool = False, scale: float | None = None
) -> Value:
    if is_causal:
        size = (shape_of(q)[-2], shape_of(k)[-2])
        return _masked(q, k, v, np.tri(*size, dtype=np.bool_), scale)
    return matmul(softmax(_scores(q, k, scale)), v)


SHAPES = "q of shape (..., L, E), k (..., S, E), v (..., S, V)"
DERIVATIVE = "that of the products and of softmax, by the chain rule"
SOURCE = (
    "Vaswani et al., Attention is all you need (2017); "
    "torch.nn.functional.scaled_dot_product_attention"
)

scaled_dot_product_attention: Composite = composite(
    "scaled_dot_product_attention", _attention, aliases=("attention",), rounding="inputs"
).says(
    f"softmax(q @ transpose(k) scale) @ v, {SHAPES}; scale is 1 / sqrt(E) unless given. "
    "With is_causal, query i sees the keys up to i alone. For a mask of your own: masked_attention",
    DERIVATIVE,
    source=SOURCE,
)


masked_attention: Composite = composite(
    "masked_attention",
    _masked,
    arrays=("q", "k", "v", "mask"),
    keywords={"scale": None},
    kinds={3: "bool"},
    rounding="inputs",
    points=(
        Point(
            "a query sees no key",
            "limit",
            ([[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], [[False, False]]),
            ([[0.0, 0.0]], 0.0, 0.0, None),
        ).because(
            "nothing is attended to, whatever q and k are, and the result is 0; a softmax "
            "of nothing but -inf, as it is composed in TensorFlow, is 0 / 0",
            tensorflow=([[0.0, 0.0]], 0.0, np.nan, None),
            jax=([[0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[np.nan], [np.nan]], None),
        ),
    ),
).says(
    f"softmax(where(mask, q @ transpose(k) scale, -inf)) @ v, {SHAPES}, a boolean mask "
    "(..., L, S) that is true where a query sees a key; "
    "0 for a query that sees none in the reference engine and PyTorch, nan in TensorFlow and JAX",
    DERIVATIVE,
    source=SOURCE,
)

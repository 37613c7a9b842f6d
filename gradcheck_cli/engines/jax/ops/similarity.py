"""Directions of vectors, and how near they are."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.jax.ops.losses import reduced
from gradcheck_cli.engines.kit.lowerings import Lowering


def normalize(jax: Any, x: Any, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Any:
    size = jax.numpy.linalg.vector_norm(x, ord=ord, axis=axis, keepdims=True)
    return x / jax.numpy.maximum(size, eps)


def cosine_similarity(jax: Any, x1: Any, x2: Any, axis: int = -1, eps: float = 1e-8) -> Any:
    both = jax.numpy.broadcast_arrays(x1, x2)
    first, second = (normalize(jax, x, axis=axis, eps=eps) for x in both)
    return (first * second).sum(axis=axis)


def triplet(
    jax: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    near = jax.numpy.linalg.vector_norm(anchor - positive + eps, ord=ord, axis=-1)
    far = jax.numpy.linalg.vector_norm(anchor - negative + eps, ord=ord, axis=-1)
    return reduced(jax, jax.nn.relu(margin + near - far), reduction)


ROWS: dict[str, Lowering] = {
    "cosine_similarity": cosine_similarity,
    "normalize": normalize,
    "triplet": triplet,
}

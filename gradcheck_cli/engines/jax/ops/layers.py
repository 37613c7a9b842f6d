"""Layers of networks, as one composes them."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def dropout(jax: Any, x: Any, mask: Any, rate: float = 0.5) -> Any:
    return jax.numpy.where(mask, x / (1 - rate), 0)


def embedding(jax: Any, indices: Any, weight: Any) -> Any:
    return weight[indices]


def linear(jax: Any, x: Any, w: Any, b: Any) -> Any:
    return x @ w.T + b


def masked_attention(
    jax: Any, q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None
) -> Any:
    """jax.nn.dot_product_attention takes arrays of another order of axes."""
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = jax.numpy.where(mask, scores, -jax.numpy.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def scaled_dot_product_attention(
    jax: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: float | None = None
) -> Any:
    mask = jax.numpy.tri(q.shape[-2], k.shape[-2], dtype=bool) if is_causal else None
    return masked_attention(jax, q, k, v, mask, scale)


ROWS: dict[str, Lowering] = {
    "dropout": dropout,
    "embedding": embedding,
    "linear": linear,
    "masked_attention": masked_attention,
    "scaled_dot_product_attention": scaled_dot_product_attention,
}

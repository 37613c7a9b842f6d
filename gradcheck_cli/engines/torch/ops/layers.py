"""Layers of networks."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def dropout(torch: Any, x: Any, mask: Any, rate: float = 0.5) -> Any:
    """PyTorch draws its own masks; a given one is multiplied."""
    return x * mask / (1 - rate)


def masked_attention(
    torch: Any, q: Any, k: Any, v: Any, mask: Any, scale: float | None = None
) -> Any:
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(q, k, v, attn_mask=mask, scale=scale)


ROWS: dict[str, Lowering] = {
    "dropout": dropout,
    "embedding": "nn.functional.embedding",
    "linear": "nn.functional.linear",
    "masked_attention": masked_attention,
    "scaled_dot_product_attention": "nn.functional.scaled_dot_product_attention",
}

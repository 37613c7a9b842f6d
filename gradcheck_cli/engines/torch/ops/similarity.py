"""Directions of vectors, and how near they are."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def cosine_similarity(torch: Any, x1: Any, x2: Any, axis: int = -1, eps: float = 1e-8) -> Any:
    return torch.nn.functional.cosine_similarity(x1, x2, dim=axis, eps=eps)


def normalize(torch: Any, x: Any, ord: float = 2, axis: int = -1, eps: float = 1e-12) -> Any:
    return torch.nn.functional.normalize(x, p=ord, dim=axis, eps=eps)


def triplet(
    torch: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    ord: float = 2,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    loss = torch.nn.functional.triplet_margin_loss
    return loss(anchor, positive, negative, margin=margin, p=ord, eps=eps, reduction=reduction)


ROWS: dict[str, Lowering] = {
    "cosine_similarity": cosine_similarity,
    "normalize": normalize,
    "triplet": triplet,
}

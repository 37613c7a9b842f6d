"""Losses that compare element by element."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


def _reduced(terms: Any, reduction: str) -> Any:
    return {"mean": terms.mean, "sum": terms.sum, "none": lambda: terms}[reduction]()


def hinge(torch: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return _reduced(torch.relu(1 - x * y), reduction)


def bce(torch: Any, p: Any, y: Any, reduction: str = "mean") -> Any:
    """PyTorch wants both in one shape."""
    loss = torch.nn.functional.binary_cross_entropy
    return loss(*torch.broadcast_tensors(p, y), reduction=reduction)


def bce_with_logits(torch: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return loss(*torch.broadcast_tensors(x, y), reduction=reduction)


ROWS: dict[str, Lowering] = {
    "bce": bce,
    "bce_with_logits": bce_with_logits,
    "hinge": hinge,
    "huber": "nn.functional.huber_loss",
    "kl_div": "nn.functional.kl_div",
    "l1": "nn.functional.l1_loss",
    "mse": "nn.functional.mse_loss",
}

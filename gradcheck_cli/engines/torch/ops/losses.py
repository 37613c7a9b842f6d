"""Losses that compare element by element."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Limited, Lowering, Words


def _reduced(terms: Any, reduction: str) -> Any:
    return {"mean": terms.mean, "sum": terms.sum, "none": lambda: terms}[reduction]()


def mse(torch: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    """Reduced after it: of PyTorch's own mean there is no forward derivative of the reverse one."""
    x, y = torch.broadcast_tensors(x, y)
    return _reduced(torch.nn.functional.mse_loss(x, y, reduction="none"), reduction)


def kl_div(torch: Any, log_p: Any, q: Any, reduction: str = "mean") -> Any:
    """Reduced after it: with its own mean comes a warning that the mean will be another one."""
    log_p, q = torch.broadcast_tensors(log_p, q)
    return _reduced(torch.nn.functional.kl_div(log_p, q, reduction="none"), reduction)


def hinge(torch: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return _reduced(torch.relu(1 - x * y), reduction)


def _of_one_shape(name: str) -> Words:
    """PyTorch wants both arrays in one shape."""

    def loss(torch: Any, x: Any, y: Any, **keywords: Any) -> Any:
        return getattr(torch.nn.functional, name)(*torch.broadcast_tensors(x, y), **keywords)

    return loss


ROWS: dict[str, Lowering] = {
    "bce": Limited(
        _of_one_shape("binary_cross_entropy"),
        "it adds 1e-12 to the denominators of its second derivative",
        second="float32",
    ),
    "bce_with_logits": _of_one_shape("binary_cross_entropy_with_logits"),
    "hinge": hinge,
    "huber": _of_one_shape("huber_loss"),
    "kl_div": kl_div,
    "l1": _of_one_shape("l1_loss"),
    "mse": mse,
}

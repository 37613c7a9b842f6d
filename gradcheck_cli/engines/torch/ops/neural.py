"""Normalised exponentials."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of
from gradcheck_cli.engines.kit.lowerings import Lowering


def logsumexp(torch: Any, x: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    return torch.logsumexp(x, dim=axes_of(axis, x.ndim), keepdim=keepdims)


def softmax(torch: Any, x: Any, axis: int = -1) -> Any:
    return torch.softmax(x, dim=axis)


def log_softmax(torch: Any, x: Any, axis: int = -1) -> Any:
    return torch.log_softmax(x, dim=axis)


ROWS: dict[str, Lowering] = {
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "softmax": softmax,
}

"""Normalisation of layers."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def batch_norm(torch: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    functional = torch.nn.functional
    return functional.batch_norm(x, None, None, weight, bias, training=True, eps=eps)


def group_norm(
    torch: Any, x: Any, weight: Any, bias: Any, num_groups: int, eps: float = 1e-5
) -> Any:
    return torch.nn.functional.group_norm(x, num_groups, weight, bias, eps)


def layer_norm(torch: Any, x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def rms_norm(torch: Any, x: Any, weight: Any, eps: float = 1e-5) -> Any:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


ROWS: dict[str, Lowering] = {
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}

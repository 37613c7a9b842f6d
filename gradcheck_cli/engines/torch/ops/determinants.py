"""Determinants."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def slogdet_logabs(torch: Any, x: Any) -> Any:
    return torch.linalg.slogdet(x).logabsdet


def slogdet_sign(torch: Any, x: Any) -> Any:
    return torch.linalg.slogdet(x).sign


ROWS: dict[str, Lowering] = {
    "det": "linalg.det",
    "logdet": "logdet",
    "slogdet_logabs": slogdet_logabs,
    "slogdet_sign": slogdet_sign,
}

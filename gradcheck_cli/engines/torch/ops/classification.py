"""Losses of classifiers. PyTorch too has the classes on axis 1."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "cross_entropy": "nn.functional.cross_entropy",
    "nll": "nn.functional.nll_loss",
    "soft_cross_entropy": "nn.functional.cross_entropy",
}

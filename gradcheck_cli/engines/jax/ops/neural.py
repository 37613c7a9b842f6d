"""Normalised exponentials."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "log_softmax": "nn.log_softmax",
    "logsumexp": "nn.logsumexp",
    "softmax": "nn.softmax",
}

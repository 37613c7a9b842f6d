"""Convolutions."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "conv1d": "nn.functional.conv1d",
    "conv2d": "nn.functional.conv2d",
    "conv_transpose2d": "nn.functional.conv_transpose2d",
}

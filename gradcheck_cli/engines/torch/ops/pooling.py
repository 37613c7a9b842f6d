"""Pooling."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "avg_pool2d": "nn.functional.avg_pool2d",
    "max_pool2d": "nn.functional.max_pool2d",
}

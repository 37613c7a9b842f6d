"""Products of matrices."""

from __future__ import annotations

from gradcheck_cli.engines.lowerings import Lowering

ROWS: dict[str, Lowering] = {"matmul": "matmul"}

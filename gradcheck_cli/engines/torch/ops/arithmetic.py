"""Arithmetic."""

from __future__ import annotations

from gradcheck_cli.engines.kit.composed import cbrt
from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "abs": "abs",
    "cbrt": cbrt,
    "hypot": "hypot",
    "reciprocal": "reciprocal",
    "remainder": "remainder",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "square": "square",
}

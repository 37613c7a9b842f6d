"""Arithmetic."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "abs": "numpy.abs",
    "cbrt": "numpy.cbrt",
    "hypot": "numpy.hypot",
    "reciprocal": "numpy.reciprocal",
    "remainder": "numpy.remainder",
    "rsqrt": "lax.rsqrt",
    "sqrt": "numpy.sqrt",
    "square": "numpy.square",
}

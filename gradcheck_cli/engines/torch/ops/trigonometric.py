"""Circular and hyperbolic functions."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atan2": "atan2",
    "atanh": "atanh",
    "cos": "cos",
    "cosh": "cosh",
    "sin": "sin",
    "sinc": "sinc",
    "sinh": "sinh",
    "tan": "tan",
}

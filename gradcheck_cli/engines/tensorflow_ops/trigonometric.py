"""Circular and hyperbolic functions."""

from __future__ import annotations

from gradcheck_cli.engines.lowerings import Lowering

ROWS: dict[str, Lowering] = {"cos": "cos", "sin": "sin", "tan": "tan"}

"""Sums, products and extremes over axes."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

_NAMES = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "sum")

ROWS: dict[str, Lowering] = {name: f"numpy.{name}" for name in _NAMES}

"""Circular and hyperbolic functions."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

_NAMES = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"),
    *("cos", "cosh", "sin", "sinc", "sinh", "tan"),
)

ROWS: dict[str, Lowering] = {name: f"numpy.{name}" for name in _NAMES}

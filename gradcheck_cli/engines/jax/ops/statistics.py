"""Variance and standard deviation."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {"std": "numpy.std", "var": "numpy.var"}

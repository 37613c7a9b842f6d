"""Lengths of vectors."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {"norm": "numpy.linalg.vector_norm"}

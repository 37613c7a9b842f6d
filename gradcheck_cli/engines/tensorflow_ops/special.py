"""Special functions."""

from __future__ import annotations

from gradcheck_cli.engines.lowerings import Lowering

ROWS: dict[str, Lowering] = {"erf": "math.erf"}

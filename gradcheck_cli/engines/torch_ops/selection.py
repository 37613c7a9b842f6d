"""Logic, and the functions that choose between their arguments."""

from __future__ import annotations

from gradcheck_cli.engines.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "ceil": "ceil",
    "clip": "clamp",
    "floor": "floor",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "maximum": "maximum",
    "minimum": "minimum",
    "relu": "relu",
    "round": "round",
    "sign": "sign",
    "where": "where",
}

"""Logic, and the functions that choose between their arguments."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def clip(torch: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    """torch.clamp wants a bound at least."""
    return x if min is None and max is None else torch.clamp(x, min, max)


ROWS: dict[str, Lowering] = {
    "ceil": "ceil",
    "clip": clip,
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

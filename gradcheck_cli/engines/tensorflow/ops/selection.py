"""Logic, and the functions that choose between their arguments."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def clip(tf: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None and max is not None:
        return tf.clip_by_value(x, min, max)
    x = x if min is None else tf.maximum(x, min)
    return x if max is None else tf.minimum(x, max)


ROWS: dict[str, Lowering] = {
    "ceil": "math.ceil",
    "clip": clip,
    "floor": "floor",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "maximum": "maximum",
    "minimum": "minimum",
    "relu": "nn.relu",
    "round": "round",
    "sign": "sign",
    "where": "where",
}

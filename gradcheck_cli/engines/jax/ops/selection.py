"""Logic, and the functions that choose between their arguments."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "ceil": "numpy.ceil",
    "clip": "numpy.clip",
    "floor": "numpy.floor",
    "logical_and": "numpy.logical_and",
    "logical_not": "numpy.logical_not",
    "logical_or": "numpy.logical_or",
    "maximum": "numpy.maximum",
    "minimum": "numpy.minimum",
    "relu": "nn.relu",
    "round": "numpy.round",
    "sign": "numpy.sign",
    "where": "numpy.where",
}

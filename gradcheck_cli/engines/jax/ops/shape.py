"""Other shapes for the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.engines.kit.axes import shape_of
from gradcheck_cli.engines.kit.lowerings import Lowering


def broadcast_to(jax: Any, x: Any, shape: Any) -> Any:
    return jax.numpy.broadcast_to(x, shape_of(shape))


def repeat(jax: Any, x: Any, repeats: Any, axis: int | None = None) -> Any:
    """How often is known beforehand, or the result had no shape."""
    return jax.numpy.repeat(x, np.asarray(repeats), axis=axis)


def pad(jax: Any, x: Any, pad_width: Any, value: float = 0.0) -> Any:
    return jax.numpy.pad(x, pad_width, constant_values=value)


def trace(jax: Any, x: Any, offset: int = 0) -> Any:
    return jax.numpy.trace(x, offset, axis1=-2, axis2=-1)


ROWS: dict[str, Lowering] = {
    "broadcast_to": broadcast_to,
    "diag": "numpy.diag",
    "expand_dims": "numpy.expand_dims",
    "flip": "numpy.flip",
    "moveaxis": "numpy.moveaxis",
    "pad": pad,
    "repeat": repeat,
    "reshape": "numpy.reshape",
    "roll": "numpy.roll",
    "squeeze": "numpy.squeeze",
    "tile": "numpy.tile",
    "trace": trace,
    "transpose": "numpy.transpose",
    "tril": "numpy.tril",
    "triu": "numpy.triu",
}

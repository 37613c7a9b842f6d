"""Variance and standard deviation."""

from __future__ import annotations

from math import inf, prod, sqrt
from typing import Any

from gradcheck_cli.engines.kit.axes import axes_of
from gradcheck_cli.engines.kit.lowerings import Lowering


def _corrected(x: Any, axis: Any, correction: float) -> float:
    """The population's variance times this is the corrected one."""
    count = prod(x.shape[a] for a in axes_of(axis, x.shape.rank))
    free = max(count - correction, 0)
    return count / free if free else inf


def var(tf: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    y = tf.math.reduce_variance(x, axis=axis, keepdims=keepdims)
    return y * _corrected(x, axis, correction) if correction else y


def std(tf: Any, x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    y = tf.math.reduce_std(x, axis=axis, keepdims=keepdims)
    return y * sqrt(_corrected(x, axis, correction)) if correction else y


ROWS: dict[str, Lowering] = {"std": std, "var": var}

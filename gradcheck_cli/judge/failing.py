"""The failures that a search looks for: a gradient entry that is 0 although it counts, or that is
off by half of its digits.

A run does not excuse these entries by the rounding of its operations, unless rounding the inputs
moves the truth as far (`domain/thresholds.py`, EXCUSED_MOVES). Pure functions of arrays.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.thresholds import ROUNDED_AWAY


def eps(fmt: FloatFormat) -> float:
    """The spacing of the dtype's numbers at 1."""
    return 2 * fmt.unit_roundoff


def half(fmt: FloatFormat) -> float:
    """The relative error that loses half of the digits: sqrt(eps)."""
    return float(np.sqrt(eps(fmt)))


def top_of(truth: Array) -> Array:
    """The largest finite |truth| among the entries (..., n) of one input's gradient: (..., 1)."""
    size = np.abs(truth)
    finite = np.where(np.isfinite(size), size, 0.0)
    return np.asarray(np.max(finite, axis=-1, keepdims=True, initial=0.0))


def lost_to_zero(computed: Array, truth: Array, top: Array, fmt: FloatFormat) -> Array:
    """|truth| as a multiple of the smallest size that counts, for entries computed as 0; else 0."""
    limit = np.maximum(fmt.smallest_normal, ROUNDED_AWAY * eps(fmt) * top)
    size = np.abs(truth) / limit
    return np.where((computed == 0) & (size > 1), size, 0.0)


def inaccuracy(computed: Array, truth: Array, top: Array, fmt: FloatFormat) -> Array:
    """The error as a multiple of the allowed error, for entries that fail; else 0."""
    size = np.abs(computed - truth) / (half(fmt) * top)
    fails = (top >= fmt.smallest_normal) & (size > 1) & np.isfinite(computed)
    return np.where(fails, size, 0.0)

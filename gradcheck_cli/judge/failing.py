"""When a number fails: it is 0 in place of one that counts, or off by half of its digits.

Searches look for such numbers, and a run excuses none of them by the rounding of its operations,
unless rounding the inputs moves the truth as far (`domain/thresholds.py`, EXCUSED_MOVES). Pure:
arrays in, arrays out.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.thresholds import ROUNDED_AWAY


def eps(fmt: FloatFormat) -> float:
    """The spacing of numbers at 1."""
    return 2 * fmt.unit_roundoff


def half(fmt: FloatFormat) -> float:
    """A relative error of half the digits."""
    return float(np.sqrt(eps(fmt)))


def top_of(truth: Array) -> Array:
    """The largest |truth| among the entries (..., n) of one input's gradient, kept as an axis."""
    size = np.abs(truth)
    finite = np.where(np.isfinite(size), size, 0.0)
    return np.asarray(np.max(finite, axis=-1, keepdims=True, initial=0.0))


def lost_to_zero(computed: Array, truth: Array, top: Array, fmt: FloatFormat) -> Array:
    """How many times the least |truth| that counts an entry is, where it is 0; else 0."""
    limit = np.maximum(fmt.smallest_normal, ROUNDED_AWAY * eps(fmt) * top)
    size = np.abs(truth) / limit
    return np.where((computed == 0) & (size > 1), size, 0.0)


def inaccuracy(computed: Array, truth: Array, top: Array, fmt: FloatFormat) -> Array:
    """How many times the allowed error that of each entry is, where it fails; else 0."""
    size = np.abs(computed - truth) / (half(fmt) * top)
    fails = (top >= fmt.smallest_normal) & (size > 1) & np.isfinite(computed)
    return np.where(fails, size, 0.0)

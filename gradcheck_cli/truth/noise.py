"""How much rounding there is in one float64 value of a function."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.truth.differences import Float

# Library functions are good to 1-2 ulps rather than to half of one, and the sum is of first order.
SLACK = 4.0


def from_sums(zero: Float, sums: Float) -> Float:
    """Noise (m,) of values `zero` (m,) whose operations' roundings sum to `sums` (m,)."""
    u = FORMATS["float64"].unit_roundoff
    with np.errstate(all="ignore"):
        noise = SLACK * (sums + u * np.abs(zero))
    return np.where(np.isfinite(noise), noise, from_size(zero, 1))


def from_size(zero: Float, operations: int) -> Float:
    """Noise (m,) when only the size of the values is known: every operation rounds at that size."""
    u = FORMATS["float64"].unit_roundoff
    size = np.where(np.isfinite(zero), np.abs(zero), 0.0)
    return np.asarray(SLACK * u * size * np.sqrt(max(operations, 1)))

"""The scale of an array as a power of two, so that multiplying by it causes no rounding."""

from __future__ import annotations

import math

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.large_arrays import dot, parts

# Exponents of a tangent's scale. A Gaussian of scale 2^12 stays below float16's largest number,
# 65504, with a margin of 16 standard deviations, and one of 2^-12 above its smallest normal one,
# 2^-14. The products of a tangent with a Jacobian grow with this scale, so wider formats have no
# wider range.
TANGENT_EXPONENT = 12


def scale_of(values: Array) -> float:
    """The power of two below the root mean square of all finite entries; 1 if all are zero."""
    flat = np.asarray(values).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (_square(flat[inside]) for inside in parts(flat.size))
        square = sum(squares) / max(flat.size, 1)
    if math.isfinite(square) and square >= np.finfo(np.float64).tiny:
        return 2.0 ** math.floor(math.log2(square) / 2)
    return _scale_of_extreme(np.asarray(flat[np.isfinite(flat)], np.float64))


def _square(part: Array) -> float:
    wide = np.asarray(part, np.float64)
    return dot(wide, wide)


def _scale_of_extreme(flat: Array) -> float:
    """The scale of numbers whose squares leave the range of float64."""
    largest = float(np.max(np.abs(flat), initial=0.0))
    if largest == 0.0:
        return 1.0
    _, exponent = math.frexp(largest)
    scaled = np.ldexp(flat, -exponent)
    return math.ldexp(1.0, math.floor(math.log2(float(np.mean(scaled**2))) / 2) + exponent)


def tangent_scale(values: Array) -> float:
    """`scale_of`, limited so that a Gaussian tangent of this scale fits every dtype."""
    limit = 2.0**TANGENT_EXPONENT
    return min(max(scale_of(values), 1 / limit), limit)

"""The rounding error in one float64 value of a function, from its operations, its size, or
measured."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, isfinite

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.large_arrays import parts
from gradcheck_cli.domain.thresholds import (
    FIRST_ORDER_SLACK,
    NOISE_GROWS,
    OPERATIONS,
    ROUNDING_GRAINS,
    Step,
)
from gradcheck_cli.truth.numerics.differences import Float

Function = Callable[[Values], Float]
"""From inputs by name to all outputs, (m,)."""

# Part of the inputs' bits that stay when these move: they move by far more than an ulp, and by so
# little that no function changes its shape (2^-40 of themselves in float64).
KEPT: Step = 0.75
UNEVEN: Step = 1.2345678901234567  # times that, so that the inputs are rounded too
# Times that, if the inputs are not rounded. Multiplied by any power of two, both are a fifth or
# more from a whole number. So no intermediate number is rounded alike at all points, as 1 + x would
# be if x moved by whole ulps of 1. A constant in a function may undo one of the two.
SPREAD: Step = 1.3
AGAIN: Step = 1.7
POINTS = 7
ORDERS = (3, 4, 5)  # of differences in which only noise is left
LONGER = 12  # moves for a value that stays the same
GROWTH: Step = 8.0  # from one move to the next: up to 2^-4 of the inputs in float64
NEAR_0: Step = 2.0**-32  # part of the neighbours' size that stands for the size of a zero
BESIDE: Step = 2.0**-20
"""How far from a zero the noise is measured once more, in units of its neighbours."""
FAR: Step = 0.21823  # about where differences take their longest steps
# Ulps of float32 from point to point, to detect casts to float32 inside the function; their
# fractions neither return after a few points nor grow evenly.
CASTS: tuple[Step, ...] = (4.382, 13.618, 43.854)


def from_sums(zero: Float, sums: Float, unknown: Float | float) -> Float:
    """The noise (m,) of values `zero` (m,) whose operations' roundings add up to `sums` (m,);
    `unknown` if that is not finite, as at a vertical tangent."""
    u = FORMATS["float64"].unit_roundoff
    noise = FIRST_ORDER_SLACK * (sums + u * np.abs(zero))
    return np.where(np.isfinite(noise), noise, unknown)


def from_size(zero: Float, operations: int, dtype: str = "float64") -> Float:
    """The noise (m,) if only the size of the values is known: every operation rounds at that
    size."""
    u = FORMATS[dtype].unit_roundoff
    size = np.where(np.isfinite(zero), np.abs(zero), 0.0)
    return np.asarray(FIRST_ORDER_SLACK * u * size * np.sqrt(max(operations, 1)))


def measured(
    function: Function,
    values: Values,
    zero: Float,
    exact: bool = True,
    dtype: str = "float64",
    grains: bool = False,
) -> Float:
    """The noise (m,) from the values at points beside `values`, where `function` is `zero` (m,). It
    includes the rounding of the inputs at these points, unless they are `exact`. `dtype` is the
    dtype in which `function` computes.

    High differences of values that lie close together are noise; the k-th has (2k)! / (k!)^2 times
    the variance of one value (Hamming; Moré and Wild 2011, "Estimating computational noise"). Costs
    POINTS evaluations for all outputs. `grains`: a value that stays the same at these points, or
    moves evenly, may be the difference of two large numbers and change by their last digit. This is
    looked for with other and longer moves.
    """
    step = 2.0 ** -round(KEPT * FORMATS[dtype].bits)
    factor = _representable(step * SPREAD, dtype) if exact else step * UNEVEN
    table = _table(function, values, zero, factor)
    still = np.all(table == zero, axis=0)
    noise = in_differences(table)
    if grains and exact:
        again = _table(function, values, zero, _representable(step * AGAIN, dtype))
        noise = np.fmax(noise, in_differences(again))
    loud = noise > ROUNDING_GRAINS * FORMATS[dtype].unit_roundoff * max(
        map(largest_of, (zero, *values.values()))
    )
    if np.any(loud):
        noise = np.where(loud, _heard_afar(function, values, zero, noise), noise)
    if grains and np.any(still):
        sizes = (zero, *values.values(), _afar(function, values))
        limit = ROUNDING_GRAINS * FORMATS[dtype].unit_roundoff * max(map(largest_of, sizes))
        grain = _grain(function, values, zero, factor, still, limit)
        noise = np.where(still, FIRST_ORDER_SLACK * grain, noise)
    if grains and exact and np.any((noise == 0) & ~still):  # moves that are whole grains
        uneven = measured(function, values, zero, exact=False, dtype=dtype)
        noise = np.where((noise == 0) & ~still, uneven, noise)
    return noise


def measured_of_layer(
    function: Function,
    values: Values,
    zero: Float,
    exact: bool,
    dtype: str,
    least: Float | float = 0.0,
) -> tuple[Float, bool]:
    """The noise (m,) of an unknown function, with grains and no less than `least` (m,), and whether
    it comes from a cast to float32 inside a function of dtype float64."""
    noise = np.fmax(least, measured(function, values, zero, exact, dtype, grains=True))
    if any(np.any(np.abs(value) < BESIDE) for value in values.values()):
        noise = np.fmax(noise, _beside_zeros(function, values, dtype))
    if dtype != "float64":
        return noise, False
    # A few points may show less noise of float64 than there is, and a value that is zero here may
    # be a difference of numbers as large as the others.
    sizes = np.full(zero.shape, largest_of(zero))
    casts = _of_casts(function, values, zero, np.fmax(noise, from_size(sizes, OPERATIONS)))
    return np.fmax(noise, casts), bool(np.any(casts))


def _representable(factor: float, dtype: str) -> float:
    """The nearest factor by which every number of `dtype` moves by whole ulps of itself."""
    bits = FORMATS[dtype].bits
    return float(np.ldexp(np.round(np.ldexp(factor, bits)), -bits))


def _table(function: Function, values: Values, zero: Float, factor: float) -> Float:
    """The values (POINTS + 1, m) at evenly spaced points, beginning here."""
    shifts = {name: _shift(value, factor) for name, value in values.items()}
    moves = (
        {name: value + k * shifts[name] for name, value in values.items()}
        for k in range(1, POINTS + 1)
    )
    return np.stack([zero, *(function(moved) for moved in moves)])


def in_differences(table: Float) -> Float:
    """The noise (m,) that the differences of ORDERS show."""
    noise = np.zeros(table.shape[1:])
    for order in ORDERS:
        differences = np.diff(table, order, axis=0)
        variance = np.mean(differences**2, axis=0) * factorial(order) ** 2
        noise = np.fmax(noise, np.sqrt(variance / factorial(2 * order)))
    return np.where(np.isfinite(noise), FIRST_ORDER_SLACK * noise, 0.0)


def _heard_afar(function: Function, values: Values, zero: Float, noise: Float) -> Float:
    """The noise (m,), limited to the noise at points far apart: rounding is as large there, but the
    effect of a pole or jump beside the point is gone. The noise is unchanged if a value is not
    finite."""
    table = [zero]
    for k in range(1, POINTS + 1):
        away = {name: _step_away(value, k * FAR / POINTS) for name, value in values.items()}
        table.append(function(away))
    shown = in_differences(np.stack(table[1:]))
    known = np.all(np.isfinite(table), axis=0)
    return np.where(known, np.fmin(noise, shown), noise)


def _step_away(value: Array, part: float) -> Array:
    """A value moved by a part of its own size, and a small one by a part of 1."""
    if value.dtype.kind != "f":
        return value
    return value + part * np.fmax(np.abs(value), 1.0)  # an infinite value does not move


def _of_casts(function: Function, values: Values, zero: Float, known: Float) -> Float:
    """The noise (m,) of values that were cast to float32 (`x.float()`); 0 where there is none
    beyond the `known` noise.

    Points that lie less than an ulp of float32 apart do not show a cast. Farther points do:
    rounding is as large at any distance, while the change of the function itself grows with it.
    (One distance may happen to be whole ulps of an intermediate number.) Noise above some roundings
    of float32 is not taken for a cast.
    """
    unit = FORMATS["float32"].unit_roundoff
    shown: list[Float] = []
    for ulps in CASTS:
        shown.append(_at_ulps_of_float32(function, values, zero, ulps))
        if np.all(shown[0] <= NOISE_GROWS * known):
            return np.zeros(zero.shape)
    seen = np.sort(shown, axis=0)
    sizes = np.fmax(np.abs(zero), largest_of(zero))
    is_rounding = (seen[-1] <= NOISE_GROWS * seen[-2]) & (
        seen[-1] <= ROUNDING_GRAINS * unit * sizes
    )
    is_rounding &= seen[-1] > NOISE_GROWS * known
    # the steps of a function, as of floor(x) at 1e9, are smaller than the rounding of its inputs
    inputs = max(map(largest_of, values.values()), default=0.0)
    is_rounding &= NOISE_GROWS * seen[-1] >= unit * np.fmin(np.abs(zero), inputs)
    if np.any(is_rounding):  # unless the function is steep here alone, like a square root at 0
        there = _a_little_way_off(values)
        value = function(there)
        shown = [_at_ulps_of_float32(function, there, value, ulps) for ulps in CASTS]
        is_rounding &= seen[-1] <= NOISE_GROWS * np.max(shown, axis=0)
    return np.where(is_rounding, seen[-1], 0.0)


def _at_ulps_of_float32(function: Function, values: Values, zero: Float, ulps: float) -> Float:
    """The noise (m,) at points that lie so many ulps of float32 apart."""
    factor = _representable(ulps * FORMATS["float32"].unit_roundoff, "float64")
    return in_differences(_table(function, values, zero, factor))


def _a_little_way_off(values: Values) -> dict[str, Array]:
    """The values with floating numbers moved by the part BESIDE of themselves; zeros, of their
    neighbours."""
    return {
        name: value + BESIDE * np.where(value == 0, typical(value), value)
        if value.dtype.kind == "f"
        else value
        for name, value in values.items()
    }


def _grain(
    function: Function, values: Values, zero: Float, factor: float, wanted: Array, limit: float
) -> Float:
    """Half of the first change (m,) that a value makes on ever longer moves; 0 if it never changes.
    For example, log(1 + exp(x)) - x at 20 changes in steps of an ulp of 20. Moves go both ways: (1
    + erf(x)) / 2 at -8 changes towards 0 only. A first change beyond `limit` is not rounding."""
    found = np.zeros(zero.shape)
    for _ in range(LONGER):
        factor *= GROWTH
        for way in (factor, -factor):
            moved = function({name: value + _shift(value, way) for name, value in values.items()})
            change = np.abs(moved - zero) / 2
            first = (found == 0) & (change <= limit)
            found = np.where(first, change, found)
        if np.all(found[wanted] > 0):
            break
    return found


def _afar(function: Function, values: Values) -> Float:
    """The values (m,) where numbers move by their own size, and small ones by about 1. A value that
    is small here may be the difference of two numbers of that size."""
    return function({name: _step_away(value, FAR) for name, value in values.items()})


def _beside_zeros(function: Function, values: Values, dtype: str) -> Float:
    """The noise (m,) a short way off, where zeros are BESIDE in units of their neighbours. At the
    zero itself there may be none: x / max(|x|, 1e-15) * log(1 + |x|) is a line there, and has the
    roundings of 1 + |x| beyond. Tiny numbers move to BESIDE, too, because 1 - x is 1 at all of
    their own steps. Noise that the size of the value there explains is not the noise of a value
    here."""
    step = UNEVEN * 2.0 ** -round(KEPT * FORMATS[dtype].bits)
    sizes = {
        name: np.where(
            value == 0, typical(value), (np.abs(value) < BESIDE) * np.copysign(1.0, value)
        )
        if value.dtype.kind == "f"
        else 0
        for name, value in values.items()
    }
    rows = np.stack(
        [
            function(
                {name: value + (BESIDE + k * step) * sizes[name] for name, value in values.items()}
            )
            for k in range(POINTS + 1)
        ]
    )
    noise = in_differences(rows)
    own = ROUNDING_GRAINS * FORMATS[dtype].unit_roundoff * np.max(np.abs(rows), axis=0)
    return np.where(noise > own, noise, 0.0)


def largest_of(values: Array) -> float:
    """The largest finite size among numbers; 0 if there is none."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    largest = 0.0
    for inside in parts(flat.size):
        sizes = np.abs(flat[inside])
        most = float(sizes.max(initial=largest))
        if not isfinite(most):
            most = float(np.max(sizes, initial=largest, where=np.isfinite(sizes)))
        largest = most
    return largest


def _shift(value: Array, factor: float) -> Array:
    """`factor` times powers of two, so that nothing is rounded; away from 0 if `factor` is
    positive. Equal entries stay equal. A zero moves by far less than its neighbours, because every
    step beside it is exact: x / (|x| + 1e-12) is a line up to 1e-12 only."""
    value = np.asarray(value)
    if value.dtype.kind != "f":
        return np.zeros((), dtype=value.dtype)
    finite = np.isfinite(value)
    _, exponent = np.frexp(
        np.where(finite, np.where(value == 0, NEAR_0 * typical(value), value), 0.0)
    )
    return np.ldexp(factor, exponent) * np.where(finite, np.where(value < 0, -1.0, 1.0), 0.0)


def typical(values: Array) -> float:
    """A scale for an entry that is zero: the smallest size among its neighbours, at most 1."""
    sizes = np.abs(values[(values != 0) & np.isfinite(values)])
    return float(min(1.0, np.min(sizes))) if sizes.size else 1.0

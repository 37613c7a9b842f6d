"""Derivatives of functions of mpmath numbers, to far more digits than floats have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb, prod
from typing import Any

import mpmath

PRECISIONS = (200, 400, 800, 1600, 3200, 4800, 6400, 12800, 25600)  # in bits
GOOD = -70  # bits to which two precisions must agree; float64 has 53
NOTHING = -1200  # a binary exponent below every subnormal float64, with room for factors
TOO_MUCH = 1100  # and one above every float64
ROUGH = -4  # bits for a number that is only part of a bound
SURELY = -20000  # what is left by cancellation in 200 bits, over any step, is far above


def derivative(
    function: Callable[..., Any],
    xs: tuple[float, ...],
    orders: tuple[int, ...],
    scales: tuple[float, ...],
    *,
    rough: bool = False,
    precisions: tuple[int, ...] = PRECISIONS,
    largest: int = 0,
) -> mpmath.mpf:
    """The partial derivative of the given orders at xs, right to 70 bits. With `rough` it is right
    to 4 bits, and 0 if two precisions find it too small for any float.

    Central differences, truncation O(h^2) and rounding O(2^-bits / h^n). The steps shrink while the
    precision grows, until two of `precisions` (in bits) agree. `scales` are the sizes over which
    the function changes. A singularity may be much closer: a step beyond it raises TypeError,
    ValueError or ZeroDivisionError, and does not count. Two numbers too small for any float agree
    as well, but only if the precision would have shown a larger one, given intermediate numbers
    with binary exponents up to `largest`. Two numbers that are too large agree at once. Raises
    ArithmeticError if no two precisions agree.
    """
    n = sum(orders)
    lost = sum(k * max(0, -int(mpmath.mag(scale))) for k, scale in zip(orders, scales, strict=True))
    with mpmath.workprec(precisions[0]):  # whatever precision the caller works in
        size = function(*(mpmath.mpf(x) for x in xs))
    last = None
    for bits in precisions:
        with mpmath.workprec(bits):
            h = mpmath.ldexp(1, -(bits // (n + 2)))
            try:
                found = _difference(function, xs, orders, [scale * h for scale in scales])
            except (TypeError, ValueError, ZeroDivisionError):  # a step out of the domain: shorter
                found = None
            # the bits below 1 that are left of f, divided by h^n
            left = 2 * bits // (n + 2) - lost - max(largest, mpmath.mag(size))
            if last is not None and found is not None and _agree(last, found, left, rough):
                return found
        last = found
    raise ArithmeticError(f"no two precisions agree on derivative {orders} at {xs}")


def _agree(a: mpmath.mpf, b: mpmath.mpf, left: float, rough: bool) -> bool:
    if mpmath.mag(b) < NOTHING:
        sure = rough or left >= 1074 or (b != 0 and mpmath.mag(b) < SURELY)
        return bool(sure and mpmath.mag(a) < NOTHING)
    if mpmath.mag(b) > TOO_MUCH:
        return bool(mpmath.mag(a) > TOO_MUCH and a * b > 0)
    return bool(abs(a - b) <= mpmath.ldexp(abs(b), ROUGH if rough else GOOD))


def _difference(
    function: Callable[..., Any],
    xs: tuple[float, ...],
    orders: tuple[int, ...],
    steps: list[mpmath.mpf],
) -> mpmath.mpf:
    """The central difference of each order in each argument, on half steps if the order is odd."""
    total = mpmath.mpf(0)
    for ks in product(*(range(n + 1) for n in orders)):
        weight = prod((-1) ** k * comb(n, k) for k, n in zip(ks, orders, strict=True))
        moved = [
            mpmath.mpf(x) + (mpmath.mpf(n) / 2 - k) * step
            for x, k, n, step in zip(xs, ks, orders, steps, strict=True)
        ]
        total += weight * mpmath.mpf(function(*moved))
    return total / prod(step**n for step, n in zip(steps, orders, strict=True))

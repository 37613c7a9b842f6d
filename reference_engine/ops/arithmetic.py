"""Arithmetic: + - * / **, roots, remainders, the length of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import in_float32, pair_in_float32, weak_pair, weakly_typed
from reference_engine.op import Op, Point, internal, row
from reference_engine.ops.exponential import log
from reference_engine.ops.selection import equal, greater_equal, logical_and, sign, where
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

add: Op = row(
    "add", weakly_typed(np.add), Elementwise(lambda g, y, a, b: g, lambda g, y, a, b: g)
).says("x1 + x2", "1, 1")

subtract: Op = row(
    "subtract",
    weakly_typed(np.subtract),
    Elementwise(lambda g, y, a, b: g, lambda g, y, a, b: -g),
    aliases=("sub",),
).says("x1 - x2", "1, -1")

multiply: Op = row(
    "multiply",
    weakly_typed(np.multiply),
    Elementwise(lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    aliases=("mul",),
).says("x1 x2", "x2, x1")

divide: Op = row(
    "divide",
    weakly_typed(np.true_divide),
    Elementwise(lambda g, y, a, b: g / b, lambda g, y, a, b: -((g * y) / b)),
    aliases=("div", "true_divide"),
    points=(
        Point("x2 = 0", "pole", (1.0, 0.0), (np.inf, -np.inf), value=np.inf),
        Point("x1 = x2 = 0", "pole", (0.0, 0.0), (np.inf, np.nan), value=np.nan),
    ),
).says(
    "x1 / x2",
    "1 / x2, -(x1 / x2) / x2",
    domain="x2 != 0",
    stability="as -(g y) / x2, not -x1 / x2^2: the square would overflow or underflow long "
    "before the result does; g comes first, because 0 times an overflowing y / x2 is nan",
)

negative: Op = row(
    "negative", np.negative, Elementwise(lambda g, y, x: -g), aliases=("neg",), rounding="none"
).says("-x", "-1")

row(
    "reciprocal",
    lambda x: np.true_divide(*weak_pair(1, x)),
    Elementwise(lambda g, y, x: -((g * y) * y)),
    points=(Point("x = 0", "pole", (0.0,), (-np.inf,), value=np.inf),),
).says(
    "1 / x",
    "-1 / x^2",
    domain="x != 0",
    stability="as -(g y) y: y^2 alone may overflow or underflow where g y^2 does not",
)

square: Op = row("square", np.square, Elementwise(lambda g, y, x: g * (2 * x))).says("x^2", "2 x")

sqrt: Op = row(
    "sqrt",
    np.sqrt,
    Elementwise(lambda g, y, x: g * (0.5 / y)),
    points=(Point("x = 0", "vertical tangent", (0.0,), (np.inf,)),),
).says("sqrt(x)", "1 / (2 sqrt(x))", domain="x >= 0")

rsqrt: Op = row(
    "rsqrt",
    in_float32(lambda x: 1 / np.sqrt(x)),
    Elementwise(lambda g, y, x: -0.5 * (g * (y / x))),
    points=(Point("x = 0", "pole", (0.0,), (-np.inf,), value=np.inf),),
).says(
    "1 / sqrt(x)",
    "-(1 / sqrt(x)) / (2 x)",
    domain="x > 0",
    stability="y / x and not y^3, which goes through the square of a rounded result",
)

cbrt: Op = row(
    "cbrt",
    np.cbrt,
    Elementwise(lambda g, y, x: g / (3 * (y * y))),
    points=(Point("x = 0", "vertical tangent", (0.0,), (np.inf,)),),
).says(
    "the real cube root of x, negative for x < 0",
    "1 / (3 cbrt(x)^2)",
    stability="y^2 lies far inside the range for every x; y / (3 x) would be 0 / 0 at 0",
)

abs_: Op = row(
    "abs",
    np.abs,
    Elementwise(lambda g, y, x: g * sign(x)),
    aliases=("absolute",),
    rounding="none",
    points=(
        Point("x = 0", "kink", (0.0,), (0.0,)).because("0 is the least subgradient", jax=(1.0,)),
    ),
    kinks_at=lambda x: np.equal(x, 0),
).says("|x|", "sign(x)")


def _power_value(x1: Any, x2: Any) -> Any:
    if np.asarray(x2).dtype.kind == "i" and np.asarray(x1).dtype.kind in "bi" and np.any(x2 < 0):
        x1 = np.asarray(x1, np.float64)  # 2 ** -1 is 0.5, as in Python
    return np.power(x1, x2)


def _power_by_base(g: Value, y: Value, x: Value, n: Value) -> Value:
    """g n x^(n-1), and 0 for x^0 at x = 0, where the product would be 0 * inf."""
    if type(n) in (int, float) and n != 0:
        return g * (n * (x if n == 2 else power(x, n - 1)))
    flat = logical_and(equal(x, 0), equal(n, 0))
    return where(flat, 0.0, g * (n * power(where(flat, 1.0, x), n - 1)))


def _power_by_exponent(g: Value, y: Value, x: Value, n: Value) -> Value:
    """g x^n log(x), and 0 for 0^n with n >= 0, where the product would be 0 * inf."""
    flat = logical_and(equal(x, 0), greater_equal(n, 0))
    return where(flat, 0.0, g * (y * log(where(flat, 1.0, x))))


power: Op = row(
    "power",
    weakly_typed(_power_value),
    Elementwise(_power_by_base, _power_by_exponent),
    aliases=("pow",),
    points=(
        Point("x1 = 0, 0 < x2 < 1", "vertical tangent", (0.0, 0.5), (np.inf, 0.0)),
        Point(
            "x1 = 0, x2 < 0",
            "pole",
            (0.0, -1.0),
            (-np.inf, -np.inf),
            value=np.inf,
            differs={"tensorflow": (-np.inf, np.nan), "jax": (-np.inf, np.nan)},
        ),
        Point("x1 = x2 = 0", "jump", (0.0, 0.0), (0.0, 0.0), value=1.0).because(
            "x1^0 is 1 for every x1; x2 x1^(x2 - 1) alone would be 0 * inf",
            tensorflow=(np.nan, 0.0),
            jax=(np.nan, 0.0),
        ),
        Point(
            "x1 < 0, x2 whole",
            "edge",
            (-2.0, 2.0),
            (-4.0, np.nan),
            differs={"tensorflow": (-4.0, 0.0)},
        ),
    ),
    kinks_at=lambda x, n: np.equal(x, 0) & np.equal(n, 0),
).says(
    "x1 ^ x2",
    "x2 x1^(x2 - 1), x1^x2 log(x1)",
    domain="x1 > 0, or x1 = 0 with x2 >= 0, or x1 < 0 with a whole x2",
    source="elementary calculus; the limits at x1 = 0 as in torch/csrc/autograd/"
    "FunctionsManual.cpp, pow_backward_exponent",
)

# How often x2 goes into x1: a step function. NumPy corrects the rounding of the quotient.
floor_divide: Op = internal(
    "floor_divide",
    weakly_typed(np.floor_divide),
    None,
    points=(Point("x1 = k x2, k whole", "jump", (2.0, 1.0), (None, None)),),
    kinks_at=lambda a, b: np.equal(np.remainder(*weak_pair(a, b)), 0),
).says(
    "floor(x1 / x2), of the exact quotient",
    "0, so that no path leads through it",
    domain="x2 != 0",
    source="NumPy, npy_math_internal.h.src, npy_divmod",
)

remainder: Op = row(
    "remainder",
    weakly_typed(np.remainder),
    Elementwise(lambda g, y, a, b: g, lambda g, y, a, b: -(g * floor_divide(a, b))),
    aliases=("mod",),
    points=(
        Point("x1 = k x2, k whole", "jump", (2.0, 1.0), (1.0, -2.0)).because(
            "the derivative from the side of 0, where the remainder starts"
        ),
    ),
    kinks_at=lambda a, b: np.equal(np.remainder(*weak_pair(a, b)), 0),
).says(
    "x1 - x2 floor(x1 / x2), with the sign of x2, as % in Python",
    "1, -floor(x1 / x2)",
    domain="x2 != 0",
    stability="the whole number is that of the exact quotient; a rounded one may be one too many",
)


def _hypot_slope_value(x1: Any, x2: Any) -> Any:
    """x1 / sqrt(x1^2 + x2^2), with both divided by the larger first, so that no square
    overflows."""
    largest = np.maximum(np.abs(x1), np.abs(x2))
    largest = np.where(largest == 0, 1, largest)
    x1, x2 = x1 / largest, x2 / largest
    length = np.hypot(x1, x2)
    return x1 / np.where(length == 0, 1, length)


def _hypot_nonzero(a: Value, b: Value) -> Value:
    y = hypot(a, b)
    return where(equal(y, 0), 1.0, y)


def _hypot_slope_by_first(g: Value, y: Value, a: Value, b: Value) -> Value:
    other = hypot_slope(b, a)
    return g * (other * (other / _hypot_nonzero(a, b)))


def _hypot_slope_by_second(g: Value, y: Value, a: Value, b: Value) -> Value:
    return -(g * (y * (hypot_slope(b, a) / _hypot_nonzero(a, b))))


# The cosine of the angle of (x1, x2). Its derivatives are products of such cosines, so the
# derivatives of hypot, atan2, atan and asinh keep their digits in every order.
hypot_slope: Op = internal(
    "hypot_slope",
    pair_in_float32(_hypot_slope_value),
    Elementwise(_hypot_slope_by_first, _hypot_slope_by_second),
    points=(Point("x1 = x2 = 0", "jump", (0.0, 0.0), (0.0, 0.0), value=0.0),),
    kinks_at=lambda a, b: np.equal(a, 0) & np.equal(b, 0),
).says(
    "x1 / sqrt(x1^2 + x2^2), and 0 for a pair of zeros",
    "x2^2 / h^3, -x1 x2 / h^3 with h = sqrt(x1^2 + x2^2)",
)

hypot: Op = row(
    "hypot",
    weakly_typed(np.hypot),
    Elementwise(lambda g, y, a, b: g * hypot_slope(a, b), lambda g, y, a, b: g * hypot_slope(b, a)),
    points=(
        Point("x1 = x2 = 0", "kink", (0.0, 0.0), (0.0, 0.0)).because(
            "0 is the least subgradient; x1 / hypot(x1, x2) alone would be 0 / 0",
            torch=(np.nan, np.nan),
            jax=(0.5, 0.5),
        ),
    ),
    kinks_at=lambda a, b: np.equal(a, 0) & np.equal(b, 0),
).says(
    "sqrt(x1^2 + x2^2)",
    "x1 / hypot(x1, x2), x2 / hypot(x1, x2)",
    stability="no square is taken of numbers that were not scaled before",
)

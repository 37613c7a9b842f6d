"""Arithmetic: + - * / **, roots, remainders, the length of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import in_float32, pair_in_float32, weak_pair, weakly_typed
from reference_engine.op import Op, Point, register
from reference_engine.ops.exponential import log
from reference_engine.ops.selection import equal, greater_equal, logical_and, sign, where
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

FAMILY = "arithmetic"
PAIR = ("x1", "x2")

add: Op = register(
    Op(
        "add",
        weakly_typed(np.add),
        Elementwise(lambda g, y, a, b: g, lambda g, y, a, b: g),
        family=FAMILY,
        arrays=PAIR,
        formula="x1 + x2",
        derivative="1, 1",
        source="elementary calculus",
    )
)

subtract: Op = register(
    Op(
        "subtract",
        weakly_typed(np.subtract),
        Elementwise(lambda g, y, a, b: g, lambda g, y, a, b: -g),
        family=FAMILY,
        arrays=PAIR,
        aliases=("sub",),
        formula="x1 - x2",
        derivative="1, -1",
        source="elementary calculus",
    )
)

multiply: Op = register(
    Op(
        "multiply",
        weakly_typed(np.multiply),
        Elementwise(lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
        family=FAMILY,
        arrays=PAIR,
        aliases=("mul",),
        formula="x1 x2",
        derivative="x2, x1",
        source="elementary calculus",
    )
)

divide: Op = register(
    Op(
        "divide",
        weakly_typed(np.true_divide),
        Elementwise(lambda g, y, a, b: g / b, lambda g, y, a, b: -((g * y) / b)),
        family=FAMILY,
        arrays=PAIR,
        aliases=("div", "true_divide"),
        formula="x1 / x2",
        derivative="1 / x2, -(x1 / x2) / x2",
        domain="x2 != 0",
        stability="as -(g y) / x2, not -x1 / x2^2: the square would overflow or underflow long "
        "before the result does; g comes first, because 0 times an overflowing y / x2 is nan",
        points=(
            Point("x2 = 0", "pole", (1.0, 0.0), (np.inf, -np.inf), value=np.inf),
            Point("x1 = x2 = 0", "pole", (0.0, 0.0), (np.inf, np.nan), value=np.nan),
        ),
        source="elementary calculus",
    )
)

negative: Op = register(
    Op(
        "negative",
        np.negative,
        Elementwise(lambda g, y, x: -g),
        family=FAMILY,
        aliases=("neg",),
        formula="-x",
        derivative="-1",
        source="elementary calculus",
        rounding="none",
    )
)

reciprocal: Op = register(
    Op(
        "reciprocal",
        lambda x: np.true_divide(*weak_pair(1, x)),
        Elementwise(lambda g, y, x: -((g * y) * y)),
        family=FAMILY,
        formula="1 / x",
        derivative="-1 / x^2",
        domain="x != 0",
        stability="as -(g y) y: y^2 alone may overflow or underflow where g y^2 does not",
        points=(Point("x = 0", "pole", (0.0,), (-np.inf,), value=np.inf),),
        source="elementary calculus",
    )
)

square: Op = register(
    Op(
        "square",
        np.square,
        Elementwise(lambda g, y, x: g * (2 * x)),
        family=FAMILY,
        formula="x^2",
        derivative="2 x",
        source="elementary calculus",
    )
)

sqrt: Op = register(
    Op(
        "sqrt",
        np.sqrt,
        Elementwise(lambda g, y, x: g * (0.5 / y)),
        family=FAMILY,
        formula="sqrt(x)",
        derivative="1 / (2 sqrt(x))",
        domain="x >= 0",
        points=(Point("x = 0", "vertical tangent", (0.0,), (np.inf,)),),
        source="elementary calculus",
    )
)

rsqrt: Op = register(
    Op(
        "rsqrt",
        in_float32(lambda x: 1 / np.sqrt(x)),
        Elementwise(lambda g, y, x: -0.5 * (g * (y / x))),
        family=FAMILY,
        formula="1 / sqrt(x)",
        derivative="-(1 / sqrt(x)) / (2 x)",
        domain="x > 0",
        stability="y / x and not y^3, which goes through the square of a rounded result",
        points=(Point("x = 0", "pole", (0.0,), (-np.inf,), value=np.inf),),
        source="elementary calculus",
    )
)

cbrt: Op = register(
    Op(
        "cbrt",
        np.cbrt,
        Elementwise(lambda g, y, x: g / (3 * (y * y))),
        family=FAMILY,
        formula="the real cube root of x, negative for x < 0",
        derivative="1 / (3 cbrt(x)^2)",
        stability="y^2 lies far inside the range for every x; y / (3 x) would be 0 / 0 at 0",
        points=(Point("x = 0", "vertical tangent", (0.0,), (np.inf,)),),
        source="elementary calculus",
    )
)

abs_: Op = register(
    Op(
        "abs",
        np.abs,
        Elementwise(lambda g, y, x: g * sign(x)),
        family=FAMILY,
        aliases=("absolute",),
        formula="|x|",
        derivative="sign(x)",
        points=(
            Point(
                "x = 0",
                "kink",
                (0.0,),
                (0.0,),
                reason="0 is the least subgradient",
                differs={"jax": (1.0,)},
            ),
        ),
        source="elementary calculus",
        rounding="none",
        kinks_at=lambda x: np.equal(x, 0),
    )
)


def _power_value(x: Any, n: Any) -> Any:
    if np.asarray(n).dtype.kind == "i" and np.asarray(x).dtype.kind in "bi" and np.any(n < 0):
        x = np.asarray(x, np.float64)  # 2 ** -1 is 0.5, as in Python
    return np.power(x, n)


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


power: Op = register(
    Op(
        "power",
        weakly_typed(_power_value),
        Elementwise(_power_by_base, _power_by_exponent),
        family=FAMILY,
        arrays=PAIR,
        aliases=("pow",),
        formula="x1 ^ x2",
        derivative="x2 x1^(x2 - 1), x1^x2 log(x1)",
        domain="x1 > 0, or x1 = 0 with x2 >= 0, or x1 < 0 with a whole x2",
        kinks_at=lambda x, n: np.equal(x, 0) & np.equal(n, 0),
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
            Point(
                "x1 = x2 = 0",
                "jump",
                (0.0, 0.0),
                (0.0, 0.0),
                value=1.0,
                differs={"tensorflow": (np.nan, 0.0), "jax": (np.nan, 0.0)},
                reason="x1^0 is 1 for every x1; x2 x1^(x2 - 1) alone would be 0 * inf",
            ),
            Point(
                "x1 < 0, x2 whole",
                "edge",
                (-2.0, 2.0),
                (-4.0, np.nan),
                differs={"tensorflow": (-4.0, 0.0)},
            ),
        ),
        source="elementary calculus; the limits at x1 = 0 as in torch/csrc/autograd/"
        "FunctionsManual.cpp, pow_backward_exponent",
    )
)

# How often x2 goes into x1: a step function, whose rounded quotient NumPy puts right.
floor_divide: Op = register(
    Op(
        "floor_divide",
        weakly_typed(np.floor_divide),
        None,
        family=FAMILY,
        arrays=PAIR,
        formula="floor(x1 / x2), of the exact quotient",
        derivative="0, so that no path leads through it",
        domain="x2 != 0",
        points=(Point("x1 = k x2, k whole", "jump", (2.0, 1.0), (None, None)),),
        source="NumPy, npy_math_internal.h.src, npy_divmod",
        kinks_at=lambda a, b: np.equal(np.remainder(*weak_pair(a, b)), 0),
    ),
    internal=True,
)

remainder: Op = register(
    Op(
        "remainder",
        weakly_typed(np.remainder),
        Elementwise(lambda g, y, a, b: g, lambda g, y, a, b: -(g * floor_divide(a, b))),
        family=FAMILY,
        arrays=PAIR,
        aliases=("mod",),
        formula="x1 - x2 floor(x1 / x2), with the sign of x2, as % in Python",
        derivative="1, -floor(x1 / x2)",
        domain="x2 != 0",
        stability="the whole number is that of the exact quotient; a rounded one may be one too "
        "many",
        points=(
            Point(
                "x1 = k x2, k whole",
                "jump",
                (2.0, 1.0),
                (1.0, -2.0),
                reason="the derivative from the side of 0, where the remainder starts",
            ),
        ),
        source="elementary calculus",
        kinks_at=lambda a, b: np.equal(np.remainder(*weak_pair(a, b)), 0),
    )
)


def _hypot_slope_value(a: Any, b: Any) -> Any:
    """a / sqrt(a^2 + b^2), both divided by the larger first: neither square leaves the range."""
    largest = np.maximum(np.abs(a), np.abs(b))
    largest = np.where(largest == 0, 1, largest)
    a, b = a / largest, b / largest
    length = np.hypot(a, b)
    return a / np.where(length == 0, 1, length)


def _hypot_nonzero(a: Value, b: Value) -> Value:
    y = hypot(a, b)
    return where(equal(y, 0), 1.0, y)


def _hypot_slope_by_first(g: Value, y: Value, a: Value, b: Value) -> Value:
    other = hypot_slope(b, a)
    return g * (other * (other / _hypot_nonzero(a, b)))


def _hypot_slope_by_second(g: Value, y: Value, a: Value, b: Value) -> Value:
    return -(g * (y * (hypot_slope(b, a) / _hypot_nonzero(a, b))))


# The cosine of the angle at which (x1, x2) lies. Its derivatives are products of such cosines, so
# that those of hypot, atan2, atan and asinh keep their digits in every order.
hypot_slope: Op = register(
    Op(
        "hypot_slope",
        pair_in_float32(_hypot_slope_value),
        Elementwise(_hypot_slope_by_first, _hypot_slope_by_second),
        family=FAMILY,
        arrays=PAIR,
        formula="x1 / sqrt(x1^2 + x2^2), and 0 for a pair of zeros",
        derivative="x2^2 / h^3, -x1 x2 / h^3 with h = sqrt(x1^2 + x2^2)",
        points=(Point("x1 = x2 = 0", "jump", (0.0, 0.0), (0.0, 0.0), value=0.0),),
        source="elementary calculus",
        kinks_at=lambda a, b: np.equal(a, 0) & np.equal(b, 0),
    ),
    internal=True,
)

hypot: Op = register(
    Op(
        "hypot",
        weakly_typed(np.hypot),
        Elementwise(
            lambda g, y, a, b: g * hypot_slope(a, b), lambda g, y, a, b: g * hypot_slope(b, a)
        ),
        family=FAMILY,
        arrays=PAIR,
        formula="sqrt(x1^2 + x2^2)",
        derivative="x1 / hypot(x1, x2), x2 / hypot(x1, x2)",
        stability="no square is taken of numbers that were not scaled before",
        points=(
            Point(
                "x1 = x2 = 0",
                "kink",
                (0.0, 0.0),
                (0.0, 0.0),
                differs={"torch": (np.nan, np.nan), "jax": (0.5, 0.5)},
                reason="0 is the least subgradient; x1 / hypot(x1, x2) alone would be 0 / 0",
            ),
        ),
        source="elementary calculus",
        kinks_at=lambda a, b: np.equal(a, 0) & np.equal(b, 0),
    )
)

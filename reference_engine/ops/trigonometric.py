"""Circular and hyperbolic functions, and their inverses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from reference_engine.floats import Array, in_float32, weakly_typed
from reference_engine.op import REQUIRED, Op, Point, in_both, internal, row
from reference_engine.ops.arithmetic import hypot, hypot_slope, sqrt
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

sin: Op = row("sin", np.sin, Elementwise(lambda g, y, x: g * cos(x))).says(
    "sin(x)", "cos(x)", source="DLMF 4.20.1"
)

cos: Op = row("cos", np.cos, Elementwise(lambda g, y, x: -(g * sin(x)))).says(
    "cos(x)", "-sin(x)", source="DLMF 4.20.2"
)

tan: Op = row("tan", np.tan, Elementwise(lambda g, y, x: g * (1 + y * y))).says(
    "tan(x)",
    "1 + tan(x)^2",
    domain="x != pi/2 + k pi, where no floating-point number lies",
    source="DLMF 4.20.3",
)

# The divisor of asin, acos and atanh. By the product rule, its derivative would be the difference
# (1 - x) - (1 + x), which has no digits for small x.
one_minus_square: Op = internal(
    "one_minus_square",
    in_float32(lambda x: (1 - x) * (1 + x)),
    Elementwise(lambda g, y, x: g * (-2 * x)),
).says("(1 - x) (1 + x)", "-2 x", stability="1 - x^2 would lose digits near -1 and 1")

EDGES = "(1 - x)(1 + x) keeps its digits near -1 and 1, where 1 - x^2 cancels"

asin: Op = row(
    "asin",
    np.arcsin,
    Elementwise(lambda g, y, x: g / sqrt(one_minus_square(x))),
    aliases=("arcsin",),
    points=(
        Point("x = 1", "vertical tangent", (1.0,), (np.inf,)),
        Point("x = -1", "vertical tangent", (-1.0,), (np.inf,)),
    ),
).says(
    "the angle in [-pi/2, pi/2] whose sine is x",
    "1 / sqrt((1 - x) (1 + x))",
    domain="-1 <= x <= 1",
    stability=EDGES,
    source="DLMF 4.24.7",
)

acos: Op = row(
    "acos",
    np.arccos,
    Elementwise(lambda g, y, x: -(g / sqrt(one_minus_square(x)))),
    aliases=("arccos",),
    points=(
        Point("x = 1", "vertical tangent", (1.0,), (-np.inf,)),
        Point("x = -1", "vertical tangent", (-1.0,), (-np.inf,)),
    ),
).says(
    "the angle in [0, pi] whose cosine is x",
    "-1 / sqrt((1 - x) (1 + x))",
    domain="-1 <= x <= 1",
    stability=EDGES,
    source="DLMF 4.24.8",
)


def _atan_part(g: Value, y: Value, x: Value) -> Value:
    h = hypot(x, 1.0)
    return g / h / h


atan: Op = row("atan", np.arctan, Elementwise(_atan_part), aliases=("arctan",)).says(
    "the angle in (-pi/2, pi/2) whose tangent is x",
    "1 / (1 + x^2)",
    stability="divided twice by hypot(x, 1): x^2 would overflow where the result need not "
    "underflow yet",
    source="DLMF 4.24.9",
)


def _atan2_by_second(g: Value, y: Value, a: Value, b: Value) -> Value:
    return -(g * hypot_slope(a, b)) / hypot(a, b)


_OVERFLOW = Point("x1 and x2 large", "limit", (1e300, 1e300), (0.5e-300, -0.5e-300)).because(
    "all three divide by x1^2 + x2^2, which overflows", frameworks=(0.0, 0.0)
)
_UNDERFLOW = Point("x1 and x2 small", "limit", (1e-300, 1e-300), (0.5e300, -0.5e300)).because(
    "all divide by x1^2 + x2^2, which underflows; PyTorch has 0 for the infinite quotient",
    torch=(0.0, 0.0),
    tensorflow=(np.inf, -np.inf),
    jax=(np.inf, -np.inf),
)
SQUARES = (
    _OVERFLOW,
    replace(
        _OVERFLOW,
        where="x1 and x2 large, in float32",
        at=(1e30, -1e30),
        gradient=(-0.5e-30, -0.5e-30),
        dtype="float32",
    ),
    _UNDERFLOW,
    replace(
        _UNDERFLOW,
        where="x1 and x2 small, in float32",
        at=(1e-30, 1e-30),
        gradient=(0.5e30, -0.5e30),
        dtype="float32",
    ),
)

atan2: Op = row(
    "atan2",
    weakly_typed(np.arctan2),
    Elementwise(lambda g, y, a, b: g * hypot_slope(b, a) / hypot(a, b), _atan2_by_second),
    aliases=("arctan2",),
    points=(
        Point("x1 = 0, x2 < 0", "jump", (0.0, -1.0), (-1.0, 0.0), value=math.pi),
        Point("x1 = x2 = 0", "pole", (0.0, 0.0), (np.nan, np.nan), value=0.0).because(
            "the angle has every value around the origin", torch=(0.0, 0.0)
        ),
        *SQUARES,
    ),
    kinks_at=lambda a, b: np.equal(a, 0) & np.less_equal(b, 0),
).says(
    "the angle in [-pi, pi] of the point with abscissa x2 and ordinate x1",
    "x2 / (x1^2 + x2^2), -x1 / (x1^2 + x2^2)",
    domain="(x1, x2) != (0, 0)",
    stability="cosine and sine of the angle over hypot(x1, x2): the squares would overflow or "
    "underflow long before the result does",
    source="DLMF 4.23(iv)",
)

sinh: Op = row("sinh", np.sinh, Elementwise(lambda g, y, x: g * cosh(x))).says(
    "sinh(x)", "cosh(x)", source="DLMF 4.34.1"
)

cosh: Op = row("cosh", np.cosh, Elementwise(lambda g, y, x: g * sinh(x))).says(
    "cosh(x)", "sinh(x)", source="DLMF 4.34.2"
)

asinh: Op = row(
    "asinh",
    np.arcsinh,
    Elementwise(lambda g, y, x: g / hypot(x, 1.0)),
    aliases=("arcsinh",),
    points=(
        Point("|x| large", "limit", (1e300,), (1e-300,)).because(
            "PyTorch and JAX divide by sqrt(x^2 + 1), which overflows", torch=(0.0,), jax=(0.0,)
        ),
    ),
).says(
    "the number whose sinh is x",
    "1 / sqrt(1 + x^2)",
    stability="as 1 / hypot(x, 1): x^2 would overflow",
    source="DLMF 4.38.9",
)

acosh: Op = row(
    "acosh",
    np.arccosh,
    Elementwise(lambda g, y, x: g / (sqrt(x - 1) * sqrt(x + 1))),
    aliases=("arccosh",),
    points=(
        Point("x = 1", "vertical tangent", (1.0,), (np.inf,)),
        Point("x large", "limit", (1e300,), (1e-300,)).because(
            "PyTorch and JAX divide by sqrt(x^2 - 1), which overflows", torch=(0.0,), jax=(0.0,)
        ),
    ),
).says(
    "the number >= 0 whose cosh is x",
    "1 / sqrt((x - 1) (x + 1))",
    domain="x >= 1",
    stability="a root of each factor: x^2 - 1 would cancel near 1 and overflow far out",
    source="DLMF 4.38.10",
)

atanh: Op = row(
    "atanh",
    np.arctanh,
    Elementwise(lambda g, y, x: g / one_minus_square(x)),
    aliases=("arctanh",),
    points=(
        Point("x = 1", "pole", (1.0,), (np.inf,), value=np.inf),
        Point("x = -1", "pole", (-1.0,), (np.inf,), value=-np.inf),
    ),
).says(
    "the number whose tanh is x",
    "1 / ((1 - x) (1 + x))",
    domain="-1 < x < 1",
    stability=EDGES,
    source="DLMF 4.38.11",
)


def _wave(x: Array, quarters: int) -> Array:
    """sin(pi (x + quarters / 2)), reduced exactly, so that it is right to a few units for every x
    and 0 at integers."""
    nearest = np.rint(x)
    r = x - nearest
    sine = np.sin(np.pi * r)
    cosine = np.where(np.abs(r) > 0.25, np.sin(np.pi * (0.5 - np.abs(r))), np.cos(np.pi * r))
    sign = 1 - 2 * np.remainder(nearest, 2)
    turned = (sine, cosine, -sine, -cosine)[quarters % 4]
    return np.asarray(sign * turned)


TERMS = 24  # the last one is below 1e-16 of the first wherever the series is used, up to n = 8


def _sinc_series(x: Array, n: int) -> Array:
    """The n-th derivative of sum_k (-1)^k (pi x)^(2k) / (2k + 1)!, by Horner's rule."""
    start = (n + 1) // 2
    total = np.zeros_like(x)
    for k in reversed(range(start, start + TERMS)):
        weight = (-1) ** k * math.pi ** (2 * k) / ((2 * k + 1) * math.factorial(2 * k - n))
        total = total * x * x + weight
    return np.asarray(total * x if n % 2 else total)


def _sinc_derivative_value(x: Any, n: int) -> Any:
    """The n-th derivative of sinc: the series near 0, and further out x f_n = pi^(n-1) sin(pi x + n
    pi/2) - n f_(n-1), the n-th derivative of x f = sin(pi x) / pi, which only cancels near 0.
    Computed in float64 throughout."""
    x = np.asarray(x)
    kind = x.dtype if x.dtype.kind not in "biu" else np.dtype(np.float64)
    x = x.astype(np.float64)
    near = np.abs(x) < 0.25 * (n + 1)
    far = np.where(near, 1.0, x)
    y = _wave(far, 0) / (np.pi * far)
    for k in range(1, n + 1):
        y = (np.pi ** (k - 1) * _wave(far, k) - k * y) / far
    return np.where(near, _sinc_series(np.where(near, x, 0.0), n), y).astype(kind)


# The derivatives of sinc of every order: by the quotient rule they would be differences of terms
# that grow like 1/x^n near 0.
sinc_derivative: Op = internal(
    "sinc_derivative",
    _sinc_derivative_value,
    Elementwise(lambda g, y, x, n: g * sinc_derivative(x, n=n + 1)),
    keywords={"n": REQUIRED},
    rounding="inputs",
).says(
    "the n-th derivative of sin(pi x) / (pi x)",
    "the next one",
    source="DLMF 10.49.3, 10.51.3, with the Taylor series of DLMF 4.19.1",
)

sinc: Op = row(
    "sinc",
    lambda x: _sinc_derivative_value(x, 0),
    Elementwise(lambda g, y, x: g * sinc_derivative(x, n=1)),
    points=in_both(
        Point("|x| small", "limit", (1e-9,), (-(math.pi**2) / 3 * 1e-9,)).because(
            "PyTorch and JAX take the difference, in which every digit cancels",
            torch=(0.0,),
            jax=(0.0,),
        )
    ),
).says(
    "sin(pi x) / (pi x), and 1 at x = 0",
    "(cos(pi x) - sinc(x)) / x",
    stability="the derivative from its Taylor series near 0, where that difference cancels; "
    "multiples of pi are taken off before they are rounded",
    source="numpy.sinc; DLMF 10.49.3",
)

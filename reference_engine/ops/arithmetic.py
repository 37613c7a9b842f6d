"""Arithmetic: + - * / ** and what is close to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import weakly_typed
from reference_engine.op import Op, Point, register
from reference_engine.ops.exponential import log
from reference_engine.ops.selection import equal, logical_and, not_equal, sign, where
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
        Elementwise(lambda g, y, a, b: g / b, lambda g, y, a, b: -(g * (y / b))),
        family=FAMILY,
        arrays=PAIR,
        aliases=("div", "true_divide"),
        formula="x1 / x2",
        derivative="1 / x2, -(x1 / x2) / x2",
        domain="x2 != 0",
        stability="not -x1 / x2^2: the square would overflow or underflow long before the result "
        "does",
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

abs_: Op = register(
    Op(
        "abs",
        np.abs,
        Elementwise(lambda g, y, x: g * sign(x)),
        family=FAMILY,
        aliases=("absolute",),
        formula="|x|",
        derivative="sign(x)",
        points=(Point("x = 0", "kink", (0.0,), (0.0,), reason="0 is the least subgradient"),),
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
    """g x^n log(x), and 0 at x = 0, where log has no value; log sees no zero."""
    nonzero = not_equal(x, 0)
    return where(nonzero, g * (y * log(where(nonzero, x, 1.0))), 0.0)


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
        points=(
            Point("x1 = 0, 0 < x2 < 1", "vertical tangent", (0.0, 0.5), (np.inf, 0.0)),
            Point("x1 = 0, x2 < 0", "pole", (0.0, -1.0), (-np.inf, 0.0), value=np.inf),
            Point(
                "x1 = x2 = 0",
                "limit",
                (0.0, 0.0),
                (0.0, 0.0),
                value=1.0,
                reason="x1^0 is 1 for every x1; x2 x1^(x2 - 1) alone would be 0 * inf",
            ),
            Point("x1 < 0, x2 whole", "edge", (-2.0, 2.0), (-4.0, np.nan)),
        ),
        source="elementary calculus; the limits at x1 = 0 as in torch/csrc/autograd/"
        "FunctionsManual.cpp, pow_backward_exponent",
    )
)

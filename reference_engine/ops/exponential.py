"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.arithmetic.constants import LOG2_E, LOG10_E, LOG_2
from reference_engine.floats import in_float32, pair_in_float32, weakly_typed
from reference_engine.op import Op, Point, in_both, internal, row
from reference_engine.ops.selection import equal, less_equal, logical_and, where
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

exp: Op = row("exp", np.exp, Elementwise(lambda g, y, x: g * y)).says(
    "exp(x)", "exp(x)", source="DLMF 4.7.7"
)

exp2: Op = row("exp2", np.exp2, Elementwise(lambda g, y, x: g * (LOG_2 * y))).says(
    "2^x", "log(2) 2^x", source="DLMF 4.8.9"
)

expm1: Op = row(
    "expm1",
    np.expm1,
    Elementwise(lambda g, y, x: g * exp(x)),
    points=in_both(
        Point("x far below 0", "limit", (-80.0,), (math.exp(-80),)).because(
            "PyTorch and JAX take y + 1 for the derivative", torch=(0.0,), jax=(0.0,)
        )
    ),
).says(
    "exp(x) - 1, accurate near 0",
    "exp(x)",
    stability="exp(x) is taken anew: y + 1 would lose it all where exp(x) is small",
    source="DLMF 4.7.7",
)

log: Op = row(
    "log",
    np.log,
    Elementwise(lambda g, y, x: g / x),
    points=(Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf),),
).says("log(x), the natural logarithm", "1 / x", domain="x > 0", source="DLMF 4.7.1")

log2: Op = row(
    "log2",
    np.log2,
    Elementwise(lambda g, y, x: (LOG2_E * g) / x),
    points=(Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf),),
).says("log(x) / log(2)", "1 / (x log(2))", domain="x > 0", source="DLMF 4.2.10")

log10: Op = row(
    "log10",
    np.log10,
    Elementwise(lambda g, y, x: (LOG10_E * g) / x),
    points=(Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf),),
).says("log(x) / log(10)", "1 / (x log(10))", domain="x > 0", source="DLMF 4.2.14")

log1p: Op = row(
    "log1p",
    np.log1p,
    Elementwise(lambda g, y, x: g / (1 + x)),
    points=(Point("x = -1", "pole", (-1.0,), (np.inf,), value=-np.inf),),
).says("log(1 + x), accurate near 0", "1 / (1 + x)", domain="x > -1", source="DLMF 4.7.1")


def _logistic(x: Any) -> Any:
    """1/(1 + exp(-x)), with the exponential of -|x|, so that it never overflows."""
    y = np.exp(np.minimum(x, 0))
    e = np.exp(np.copysign(x, -1))
    e += 1
    y /= e
    return y


def _logistic_density(x: Any) -> Any:
    e = np.exp(np.copysign(x, -1))
    d = 1 + e
    d *= d
    e /= d
    return e


# The derivatives of sigmoid and tanh. Written as y (1 - y) or 1 - y^2 they lose every digit if y is
# close to 1, and written as a product of two sigmoids their own derivative cancels near 0. These
# two rows keep their digits everywhere, in every order.
logistic_density: Op = internal(
    "logistic_density",
    in_float32(_logistic_density),
    Elementwise(lambda g, y, x: -(g * (y * tanh(0.5 * x)))),
).says(
    "sigmoid(x) sigmoid(-x) = exp(-|x|) / (1 + exp(-|x|))^2",
    "-y tanh(x / 2)",
    source="Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 2, ch. 23",
)


def _sech_squared(x: Any) -> Any:
    e = np.exp(-2 * np.abs(x))
    d = 1 + e
    d *= d
    e /= d
    e *= 4
    return e


sech_squared: Op = internal(
    "sech_squared", in_float32(_sech_squared), Elementwise(lambda g, y, x: -2 * (g * (y * tanh(x))))
).says(
    "sech(x)^2 = 4 exp(-2|x|) / (1 + exp(-2|x|))^2", "-2 y tanh(x)", source="DLMF 4.28.6, 4.34.5"
)

tanh: Op = row(
    "tanh",
    np.tanh,
    Elementwise(lambda g, y, x: g * sech_squared(x)),
    points=in_both(
        Point("|x| large", "limit", (20.0,), (1 / math.cosh(20) ** 2,)).because(
            "all three take 1 - y^2 for the derivative", frameworks=(0.0,)
        )
    ),
).says(
    "tanh(x)",
    "sech(x)^2",
    stability="as 4 exp(-2|x|) / (1 + exp(-2|x|))^2: 1 - y^2 would lose every digit where y is "
    "close to 1",
    source="DLMF 4.34.3",
)

sigmoid: Op = row(
    "sigmoid",
    in_float32(_logistic),
    Elementwise(lambda g, y, x: g * logistic_density(x)),
    aliases=("expit", "logistic"),
    points=in_both(
        Point("x far above 0", "limit", (40.0,), (math.exp(-40),)).because(
            "all three take y (1 - y) for the derivative", frameworks=(0.0,)
        )
    ),
).says(
    "1 / (1 + exp(-x))",
    "sigmoid(x) sigmoid(-x)",
    stability="as exp(-|x|) / (1 + exp(-|x|))^2: y (1 - y) would lose every digit where y is "
    "close to 1",
)

softplus: Op = row(
    "softplus",
    in_float32(lambda x: np.logaddexp(x, 0)),
    Elementwise(lambda g, y, x: g * sigmoid(x)),
).says(
    "log(1 + exp(x)), as logaddexp(x, 0)",
    "sigmoid(x)",
    source="Dugas et al., Incorporating second-order functional knowledge (NIPS 2000)",
)

logaddexp: Op = row(
    "logaddexp",
    weakly_typed(np.logaddexp),
    Elementwise(lambda g, y, a, b: g * sigmoid(a - b), lambda g, y, a, b: g * sigmoid(b - a)),
    rounding="sums",
).says(
    "log(exp(x1) + exp(x2))",
    "sigmoid(x1 - x2), sigmoid(x2 - x1)",
    stability="exp(x1 - y) would rebuild the derivative from the rounded result",
    source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (2021)",
)


@pair_in_float32
def _xlogy_value(x1: Any, x2: Any) -> Any:
    import scipy.special  # its import costs more than the rest of this library

    return scipy.special.xlogy(x1, x2)


@pair_in_float32
def _xlog1py_value(x1: Any, x2: Any) -> Any:
    import scipy.special

    return scipy.special.xlog1py(x1, x2)


def _off_edge(a: Value, b: Value, edge: float, inside: float) -> Value:
    """x2, or `inside` if x1 is 0 and x2 is not above the edge, where x1 log(...) counts as 0."""
    return where(logical_and(equal(a, 0), less_equal(b, edge)), inside, b)


xlogy: Op = row(
    "xlogy",
    _xlogy_value,
    Elementwise(
        lambda g, y, a, b: g * log(_off_edge(a, b, 0, 1.0)),
        lambda g, y, a, b: (g * a) / _off_edge(a, b, 0, 1.0),
    ),
    points=(
        *in_both(
            Point("x1 = 0, x2 > 0", "limit", (0.0, 0.5), (math.log(0.5), 0.0)).because(
                "TensorFlow takes xlogy(0, x2) for the derivative by x1 there",
                tensorflow=(0.0, 0.0),
            )
        ),
        Point("x1 = x2 = 0", "edge", (0.0, 0.0), (0.0, 0.0), value=0.0).because(
            "what counts as 0 takes part in no sum: it has no gradient either",
            torch=(0.0, np.nan),
            jax=(-np.inf, np.nan),
        ),
    ),
).says(
    "x1 log(x2), and 0 where x1 = 0",
    "log(x2), x1 / x2",
    domain="x2 > 0, or x1 = 0",
    stability="the argument of the logarithm is made safe before it is used, so that 0 log(0) "
    "gives 0 and not 0 * inf",
    source="scipy.special.xlogy; PyTorch, tools/autograd/derivatives.yaml",
)

xlog1py: Op = row(
    "xlog1py",
    _xlog1py_value,
    Elementwise(
        lambda g, y, a, b: g * log1p(_off_edge(a, b, -1, 0.0)),
        lambda g, y, a, b: (g * a) / (1 + _off_edge(a, b, -1, 0.0)),
    ),
    points=(
        *in_both(
            Point("x1 = 0, x2 > -1", "limit", (0.0, -0.5), (math.log(0.5), 0.0)).because(
                "TensorFlow takes xlog1py(0, x2) for the derivative by x1 there",
                tensorflow=(0.0, 0.0),
            )
        ),
        Point("x1 = 0, x2 = -1", "edge", (0.0, -1.0), (0.0, 0.0), value=0.0).because(
            "what counts as 0 takes part in no sum: it has no gradient either",
            torch=(0.0, np.nan),
            jax=(-np.inf, np.nan),
        ),
    ),
).says(
    "x1 log(1 + x2), accurate near x2 = 0, and 0 where x1 = 0",
    "log(1 + x2), x1 / (1 + x2)",
    domain="x2 > -1, or x1 = 0",
    stability="as for xlogy",
    source="scipy.special.xlog1py; PyTorch, tools/autograd/derivatives.yaml",
)


@in_float32
def _log1mexp_value(x: Any) -> Any:
    near = x < math.log(2)
    below = np.log(-np.expm1(-np.where(near, x, 1)))
    return np.where(near, below, np.log1p(-np.exp(-np.where(near, 1, x))))


log1mexp: Op = row(
    "log1mexp",
    _log1mexp_value,
    Elementwise(lambda g, y, x: g * (exp(-x) / -expm1(-x))),
    points=(Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf),),
).says(
    "log(1 - exp(-x))",
    "exp(-x) / (1 - exp(-x))",
    domain="x > 0",
    stability="1 - exp(-x) as -expm1(-x), its logarithm as log1p(-exp(-x)) where x > log(2); "
    "1 / (exp(x) - 1) would overflow before the derivative underflows",
    source="Maechler, Accurately computing log(1 - exp(-|a|)), Rmpfr (2012)",
)

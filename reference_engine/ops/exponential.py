"""Exponentials, logarithms, and the functions of the logistic family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import in_float32
from reference_engine.op import Op, Point, register
from reference_engine.rules import Elementwise

FAMILY = "exponential"

exp: Op = register(
    Op(
        "exp",
        np.exp,
        Elementwise(lambda g, y, x: g * y),
        family=FAMILY,
        formula="exp(x)",
        derivative="exp(x)",
        source="DLMF 4.7.7",
    )
)

expm1: Op = register(
    Op(
        "expm1",
        np.expm1,
        Elementwise(lambda g, y, x: g * exp(x)),
        family=FAMILY,
        formula="exp(x) - 1, accurate near 0",
        derivative="exp(x)",
        stability="exp(x) is taken anew: y + 1 would lose it all where exp(x) is small",
        source="DLMF 4.7.7",
    )
)

log: Op = register(
    Op(
        "log",
        np.log,
        Elementwise(lambda g, y, x: g / x),
        family=FAMILY,
        formula="log(x), the natural logarithm",
        derivative="1 / x",
        domain="x > 0",
        points=(Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf),),
        source="DLMF 4.7.1",
    )
)

log1p: Op = register(
    Op(
        "log1p",
        np.log1p,
        Elementwise(lambda g, y, x: g / (1 + x)),
        family=FAMILY,
        formula="log(1 + x), accurate near 0",
        derivative="1 / (1 + x)",
        domain="x > -1",
        points=(Point("x = -1", "pole", (-1.0,), (np.inf,), value=-np.inf),),
        source="DLMF 4.7.1",
    )
)


def _logistic(x: Any) -> Any:
    """1/(1 + exp(-x)); the exponential is taken of -|x|, so that it never overflows."""
    e = np.exp(-np.abs(x))
    y = np.where(x >= 0, 1, e)
    e += 1
    y /= e
    return y


def _logistic_density(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    d = 1 + e
    d *= d
    e /= d
    return e


# The row that the derivatives of sigmoid and tanh share. Written as y (1 - y) or 1 - y^2 they lose
# every digit where y is close to 1, and written as a product of two sigmoids their own derivative
# cancels near 0; this row keeps its digits everywhere, in every order.
logistic_density: Op = register(
    Op(
        "logistic_density",
        in_float32(_logistic_density),
        Elementwise(lambda g, y, x: -(g * (y * tanh(0.5 * x)))),
        family=FAMILY,
        formula="sigmoid(x) sigmoid(-x) = exp(-|x|) / (1 + exp(-|x|))^2",
        derivative="-y tanh(x / 2)",
        source="Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 2, ch. 23",
    ),
    internal=True,
)

tanh: Op = register(
    Op(
        "tanh",
        np.tanh,
        Elementwise(lambda g, y, x: g * (4 * logistic_density(2 * x))),
        family=FAMILY,
        formula="tanh(x)",
        derivative="sech(x)^2",
        stability="as 4 exp(-2|x|) / (1 + exp(-2|x|))^2: 1 - y^2 would lose every digit where y is "
        "close to 1",
        source="DLMF 4.34.3",
    )
)

sigmoid: Op = register(
    Op(
        "sigmoid",
        in_float32(_logistic),
        Elementwise(lambda g, y, x: g * logistic_density(x)),
        family=FAMILY,
        aliases=("expit", "logistic"),
        formula="1 / (1 + exp(-x))",
        derivative="sigmoid(x) sigmoid(-x)",
        stability="as exp(-|x|) / (1 + exp(-|x|))^2: y (1 - y) would lose every digit where y is "
        "close to 1",
        source="elementary calculus",
    )
)

softplus: Op = register(
    Op(
        "softplus",
        in_float32(lambda x: np.logaddexp(x, 0)),
        Elementwise(lambda g, y, x: g * sigmoid(x)),
        family=FAMILY,
        formula="log(1 + exp(x)), as logaddexp(x, 0)",
        derivative="sigmoid(x)",
        source="Dugas et al., Incorporating second-order functional knowledge (NIPS 2000)",
    )
)


def _erf_value(x: Any) -> Any:
    import scipy.special  # its import costs more than the rest of this library

    return scipy.special.erf(x)


erf: Op = register(
    Op(
        "erf",
        in_float32(_erf_value),
        Elementwise(lambda g, y, x: g * (2 / math.sqrt(math.pi) * exp(-(x * x)))),
        family=FAMILY,
        formula="2/sqrt(pi) * integral of exp(-t^2) from 0 to x",
        derivative="2/sqrt(pi) exp(-x^2)",
        source="DLMF 7.2.1, 7.10.1",
    )
)

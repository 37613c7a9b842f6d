"""The error function, the normal distribution, log-odds and entropy.

The derivatives of each family are internal rows that are closed under differentiation and whose
values are sums of terms of one sign, so every order keeps its digits.
"""

from __future__ import annotations

import math

import numpy as np

from reference_engine.arithmetic import special as values
from reference_engine.arithmetic.constants import TWO_OVER_SQRT_PI
from reference_engine.arithmetic.special import scipy_special
from reference_engine.floats import in_float32
from reference_engine.op import REQUIRED, Op, Point, internal, row
from reference_engine.ops.exponential import log
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

ROUNDS_TO_ONE = "TensorFlow takes ndtri((x + 1) / 2), and (x + 1) / 2 rounds to 1"
ONE_OVER_SQRT_2_PI = 1 / math.sqrt(2 * math.pi)

gaussian: Op = internal(
    "gaussian",
    in_float32(lambda x: np.exp(-(x * x))),
    Elementwise(lambda g, y, x: -(g * (2 * x * y))),
).says("exp(-x^2)", "-2 x exp(-x^2)", source="DLMF 7.2.1")

erf: Op = row(
    "erf", scipy_special("erf"), Elementwise(lambda g, y, x: g * (TWO_OVER_SQRT_PI * gaussian(x)))
).says(
    "2/sqrt(pi) * integral of exp(-t^2) from 0 to x",
    "2/sqrt(pi) exp(-x^2)",
    source="DLMF 7.2.1, 7.10.1",
)

erfc: Op = row(
    "erfc",
    scipy_special("erfc"),
    Elementwise(lambda g, y, x: -(g * (TWO_OVER_SQRT_PI * gaussian(x)))),
).says("1 - erf(x), accurate for large x", "-2/sqrt(pi) exp(-x^2)", source="DLMF 7.2.2, 7.10.1")

scaled_ierfc: Op = internal(
    "scaled_ierfc",
    values.scaled_ierfc,
    Elementwise(lambda g, y, x, n: -(g * (2 * (n + 1) * scaled_ierfc(x, n=n + 1)))),
    keywords={"n": REQUIRED},
).says(
    "exp(x^2) i^n erfc(x), the scaled repeated integrals of erfc",
    "-2 (n + 1) times the one of order n + 1",
    stability="the textbook derivative, 2x times itself minus the one of order n - 1, cancels "
    "for x > 0",
    source="DLMF 7.18.2, 7.18.7",
)

erfcx: Op = row(
    "erfcx",
    scipy_special("erfcx"),
    Elementwise(lambda g, y, x: -(g * (2 * scaled_ierfc(x, n=1)))),
    points=tuple(
        Point("x large", "limit", (1e9,), (-1e-18 / math.sqrt(math.pi),), dtype=dtype).because(
            "2 x erfcx(x) - 2/sqrt(pi) loses the square of x: all in float32 from 1e4 "
            "on, in float64 from 1e8 on",
            torch=(0.0,),
            jax=(0.0,),
        )
        for dtype in ("float64", "float32")
    ),
).says(
    "exp(x^2) erfc(x)",
    "2 x erfcx(x) - 2/sqrt(pi)",
    stability="as -2 exp(x^2) times the integral of erfc from x on: for large x the two terms "
    "of the textbook's derivative agree in all their digits",
    source="DLMF 7.18.2, 7.18.7",
)

erfinv_slope: Op = internal(
    "erfinv_slope",
    values.erfinv_slope,
    Elementwise(lambda g, y, x: g * (y * (y * (2 * erfinv(x))))),
).says(
    "sqrt(pi)/2 exp(erfinv(x)^2)",
    "2 erfinv(x) times its own square",
    domain="-1 < x < 1",
    source="DLMF 7.17.1",
)

erfinv: Op = row(
    "erfinv",
    scipy_special("erfinv"),
    Elementwise(lambda g, y, x: g * erfinv_slope(x)),
    points=(
        Point("x = 1", "pole", (1.0,), (np.inf,), value=np.inf),
        Point("x = -1", "pole", (-1.0,), (np.inf,), value=-np.inf),
        Point("x one unit below 1", "limit", (1 - 2.0**-53,), (757347920544974.0,)).because(
            ROUNDS_TO_ONE, tensorflow=(np.inf,)
        ),
        Point(
            "x one unit below 1", "limit", (1 - 2.0**-24,), (2120848.0,), dtype="float32"
        ).because(ROUNDS_TO_ONE, tensorflow=(np.inf,)),
    ),
).says(
    "the y with erf(y) = x",
    "sqrt(pi)/2 exp(y^2)",
    domain="-1 < x < 1",
    stability="as sqrt(pi)/2 erfcx(|y|) / (1 - |x|): exp(y^2) multiplies the rounding of y by "
    "2 y^2",
    source="DLMF 7.17.1; NIST's and Boost's erf_inv",
)

normal_density: Op = internal(
    "normal_density",
    in_float32(lambda x: np.exp(-0.5 * x * x) * ONE_OVER_SQRT_2_PI),
    Elementwise(lambda g, y, x: -(g * (x * y))),
).says("exp(-x^2/2) / sqrt(2 pi)", "-x times itself", source="DLMF 7.20.1")

ndtr: Op = row(
    "ndtr", scipy_special("ndtr"), Elementwise(lambda g, y, x: g * normal_density(x))
).says(
    "the normal distribution function, erfc(-x / sqrt(2)) / 2",
    "exp(-x^2/2) / sqrt(2 pi)",
    source="DLMF 7.20.1",
)


def _third_cumulant(g: Value, y: Value, x: Value) -> Value:
    h, excess = normal_hazard(x), normal_excess(x)
    return g * ((h * excess) * excess - h * y)


normal_spread: Op = internal(
    "normal_spread", values.normal_spread, Elementwise(_third_cumulant)
).says(
    "1 - h (x + h) for h = normal_hazard(x): a variance",
    "h ((x + h)^2 - y)",
    source="Greene, Econometric Analysis, section 19.2.1, truncated distributions",
)

normal_excess: Op = internal(
    "normal_excess", values.normal_excess, Elementwise(lambda g, y, x: g * normal_spread(x))
).says(
    "x + normal_hazard(x): the mean distance below x of a normal number below x",
    "1 - h (x + h), a variance",
    source="Greene, Econometric Analysis, section 19.2.1, truncated distributions",
)

normal_hazard: Op = internal(
    "normal_hazard",
    values.normal_hazard,
    Elementwise(lambda g, y, x: -(g * (y * normal_excess(x)))),
).says(
    "density / distribution function of the normal distribution",
    "-h (x + h)",
    stability="x + h cancels for negative x, and is a row of its own",
    source="DLMF 7.8.1, Mills' ratio",
)

row(
    "log_ndtr",
    scipy_special("log_ndtr"),
    Elementwise(lambda g, y, x: g * normal_hazard(x)),
    points=tuple(
        Point("x far below 0", "limit", (x,), (-x,), value=-np.inf, dtype=dtype).because(
            "PyTorch takes exp(-x^2/2 - y), where x^2/2 and y cancel: its digits go "
            "from x = -20 on in float32, from -1e5 on in float64",
            torch=(np.nan,),
            jax=(np.nan,),
        )
        for x, dtype in ((-1e300, "float64"), (-1e30, "float32"))
    ),
).says(
    "log(ndtr(x)), accurate where ndtr underflows or is close to 1",
    "exp(-x^2/2) / (sqrt(2 pi) ndtr(x))",
    stability="for x < 0 as sqrt(2/pi) / erfcx(-x / sqrt(2)): density and distribution "
    "function underflow to 0/0",
    source="DLMF 7.20.1, 7.8.1",
)

ndtri_slope: Op = internal(
    "ndtri_slope", values.ndtri_slope, Elementwise(lambda g, y, x: g * (y * (y * ndtri(x))))
).says(
    "sqrt(2 pi) exp(ndtri(x)^2 / 2)",
    "ndtri(x) times its own square",
    domain="0 < x < 1",
    source="DLMF 7.20.1",
)

ndtri: Op = row(
    "ndtri",
    scipy_special("ndtri"),
    Elementwise(lambda g, y, x: g * ndtri_slope(x)),
    points=(
        Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf, differs={"jax": (0.0,)}),
        Point("x = 1", "pole", (1.0,), (np.inf,), value=np.inf, differs={"jax": (0.0,)}),
    ),
).says(
    "the y with ndtr(y) = x",
    "sqrt(2 pi) exp(y^2/2)",
    domain="0 < x < 1",
    stability="as 1 / (q h(-|y|)), where q = min(x, 1 - x) and h = density / distribution "
    "function: exp(y^2/2) multiplies the rounding of y by y^2, up to 1400",
    source="DLMF 7.20.1; Wichura, AS 241 (1988)",
)

logit_slope: Op = internal(
    "logit_slope", values.logit_slope, Elementwise(lambda g, y, x: g * (y * (y * (x - (1 - x)))))
).says("1 / (x (1 - x))", "(2x - 1) times its own square", domain="0 < x < 1")

logit: Op = row(
    "logit",
    values.logit,
    Elementwise(lambda g, y, x: g * logit_slope(x)),
    points=(
        Point("x = 0", "pole", (0.0,), (np.inf,), value=-np.inf),
        Point("x = 1", "pole", (1.0,), (np.inf,), value=np.inf),
    ),
).says(
    "log(x / (1 - x))",
    "1 / (x (1 - x))",
    domain="0 < x < 1",
    stability="around 1/2 as 2 artanh(2x - 1)",
)

entr: Op = row(
    "entr",
    scipy_special("entr"),
    Elementwise(lambda g, y, x: -(g * (log(x) + 1))),
    points=(
        Point("x = 0", "vertical tangent", (0.0,), (np.inf,), value=0.0).because(
            "tf.math.xlogy(x, x) has the derivative 0 where x = 0", tensorflow=(0.0,)
        ),
    ),
).says(
    "-x log(x), 0 at 0, -inf below",
    "-log(x) - 1",
    domain="x >= 0",
    source="Shannon, A mathematical theory of communication (1948)",
)

"""The logarithms of the gamma and beta functions, and the derivatives of the former."""

from __future__ import annotations

import numpy as np

from reference_engine.arithmetic import special as values
from reference_engine.arithmetic.special import scipy_special
from reference_engine.op import REQUIRED, Op, Point, internal, row
from reference_engine.rules import Elementwise

UNDERFLOW = "the Hurwitz zeta function of TensorFlow underflows with x^-2"

polygamma: Op = row(
    "polygamma",
    values.polygamma,
    Elementwise(lambda g, y, x, n: g * polygamma(x, n=n + 1)),
    keywords={"n": REQUIRED},
    points=(
        Point(
            "x = 0",
            "pole",
            (0.0,),
            (-np.inf,),
            keywords={"n": 1},
            value=np.inf,
            differs={"tensorflow": (np.nan,), "jax": (np.nan,)},
        ),
        Point("n = 0, x large", "limit", (1e300,), (1e-300,), keywords={"n": 0}).because(
            UNDERFLOW, tensorflow=(0.0,), jax=(0.0,)
        ),
    ),
).says(
    "the derivative of order n of digamma",
    "polygamma(x, n + 1)",
    domain="x != 0, -1, -2, ...; n = 0, 1, 2, ...",
    source="DLMF 5.15, 25.11.12",
)

digamma: Op = row(
    "digamma",
    scipy_special("psi"),
    Elementwise(lambda g, y, x: g * polygamma(x, n=1)),
    aliases=("psi",),
    points=(
        Point("x = 0", "pole", (0.0,), (np.inf,)),
        Point("x large", "limit", (1e300,), (1e-300,)).because(
            UNDERFLOW, tensorflow=(0.0,), jax=(0.0,)
        ),
    ),
).says(
    "the derivative of log Gamma(x)",
    "polygamma(x, 1)",
    domain="x != 0, -1, -2, ...",
    source="DLMF 5.2.2, 5.15.1",
)

lgamma: Op = row(
    "lgamma",
    values.lgamma,
    Elementwise(lambda g, y, x: g * digamma(x)),
    aliases=("gammaln",),
    points=(
        Point(
            "x = 0",
            "pole",
            (0.0,),
            (-np.inf,),
            value=np.inf,
            differs={"tensorflow": (np.nan,), "jax": (np.nan,)},
        ),
    ),
).says(
    "log |Gamma(x)|",
    "digamma(x)",
    domain="x != 0, -1, -2, ...",
    stability="from 1/2 to 5/2 by the series at the zeros 1 and 2",
    source="DLMF 5.2.1, 5.2.2, 5.7.3",
)

polygamma_drop: Op = internal(
    "polygamma_drop",
    values.polygamma_drop,
    Elementwise(
        lambda g, y, a, b, n: g * polygamma_drop(a, b, n=n + 1),
        lambda g, y, a, b, n: -(g * polygamma(a + b, n=n + 1)),
    ),
    arrays=("x1", "x2"),
    keywords={"n": REQUIRED},
).says(
    "polygamma(x1, n) - polygamma(x1 + x2, n), without cancellation",
    "the same of order n + 1, -polygamma(x1 + x2, n + 1)",
    domain="x1 > 0, x2 > 0",
    source="DLMF 5.15.5, 5.15.8",
)

betaln: Op = row(
    "betaln",
    values.betaln,
    Elementwise(
        lambda g, y, a, b: g * polygamma_drop(a, b, n=0),
        lambda g, y, a, b: g * polygamma_drop(b, a, n=0),
    ),
    arrays=("x1", "x2"),
    points=(
        Point(
            "x1 = 0",
            "pole",
            (0.0, 1.0),
            (-np.inf, 0.0),
            value=np.inf,
            differs={"tensorflow": (np.nan, 0.0), "jax": (np.nan, np.nan)},
        ),
        *(
            Point(
                "x1 far above x2", "limit", (1e20, 1.0), (-1e-20, -46.628917524782445), dtype=dtype
            ).because(
                "lgamma(x1) - lgamma(x1 + x2) loses as many digits as x1 / x2 has",
                **dict.fromkeys(("torch", "tensorflow"), (0.0, -46.628917524782445)),
                **{"jax": (-2e-20, -46.628917524782445)} if dtype == "float32" else {},
            )
            for dtype in ("float64", "float32")
        ),
    ),
).says(
    "lgamma(x1) + lgamma(x2) - lgamma(x1 + x2)",
    "digamma(x1) - digamma(x1 + x2), digamma(x2) - digamma(x1 + x2)",
    domain="x1 > 0, x2 > 0",
    stability="value and derivatives by Stirling's series, its large terms put together: the "
    "three terms of the formula agree in most digits where an argument is large",
    source="DLMF 5.12.1; DiDinato and Morris, Algorithm 708 (ACM TOMS 18, 1992)",
)

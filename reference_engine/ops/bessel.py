"""Bessel functions of fixed real order, plain and scaled.

The derivative of each is a sum of neighbours of its order, or an internal row whose terms have one
sign or whose value comes from its enclosure. All are closed under differentiation, so derivatives
of every order keep their digits.
"""

from __future__ import annotations

import math

import numpy as np

from reference_engine.arithmetic import special as values
from reference_engine.arithmetic.special import scipy_special
from reference_engine.op import REQUIRED, Op, Point, internal, row
from reference_engine.ops.selection import sign
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

# The same for both scaled functions.
FAR_OUT = Point("x large", "limit", (1e20,), (-1e-30 / math.sqrt(8 * math.pi),)).because(
    "the terms of the textbook's derivative agree in all their digits", frameworks=(0.0,)
)

ORDER = {"n": REQUIRED}

bessel_i: Op = row(
    "bessel_i",
    values.of_order("iv"),
    Elementwise(lambda g, y, x, n: g * _bessel_slope(x, n)),
    keywords=ORDER,
).says(
    "I_n(x), the modified Bessel function of the first kind, of any real order n",
    "(I_(n - 1) + I_(n + 1)) / 2",
    domain="all real numbers where n is whole, else x > 0",
    source="DLMF 10.29.1",
)

bessel_j: Op = row(
    "bessel_j",
    values.of_order("jv"),
    Elementwise(lambda g, y, x, n: g * (0.5 * (bessel_j(x, n=n - 1) - bessel_j(x, n=n + 1)))),
    keywords=ORDER,
).says(
    "J_n(x), the Bessel function of the first kind, of any real order n",
    "(J_(n - 1) - J_(n + 1)) / 2",
    domain="all real numbers where n is whole, else x > 0",
    stability="not J_(n - 1) - n J_n / x, which is 0/0 at 0",
    source="DLMF 10.6.1",
)

bessel_y: Op = row(
    "bessel_y",
    values.of_order("yv"),
    Elementwise(lambda g, y, x, n: g * (0.5 * (bessel_y(x, n=n - 1) - bessel_y(x, n=n + 1)))),
    keywords=ORDER,
).says(
    "Y_n(x), the Bessel function of the second kind, of any real order n",
    "(Y_(n - 1) - Y_(n + 1)) / 2",
    domain="x > 0",
    source="DLMF 10.6.1",
)

bessel_k: Op = row(
    "bessel_k",
    values.of_order("kv"),
    Elementwise(lambda g, y, x, n: -(g * (0.5 * (bessel_k(x, n=n - 1) + bessel_k(x, n=n + 1))))),
    keywords=ORDER,
).says(
    "K_n(x), the modified Bessel function of the second kind, of any real order n",
    "-(K_(n - 1) + K_(n + 1)) / 2",
    domain="x > 0",
    source="DLMF 10.29.1",
)

bessel_ke_slope: Op = internal(
    "bessel_ke_slope",
    values.from_enclosure("bessel_ke_slope"),
    Elementwise(lambda g, y, x, n, k: g * bessel_ke_slope(x, n=n, k=k + 1)),
    arrays=("x",),
    keywords={**ORDER, "k": REQUIRED},
).says(
    "the derivative of order k of exp(x) K_n(x)",
    "the one of order k + 1",
    domain="x > 0",
    source="DLMF 10.29.5",
)

row(
    "bessel_ke",
    values.of_order("kve"),
    Elementwise(lambda g, y, x, n: g * bessel_ke_slope(x, n=n, k=1)),
    keywords=ORDER,
).says(
    "exp(x) K_n(x), for any real order n",
    "exp(x) (K_n(x) - (K_(n - 1) + K_(n + 1)) / 2)",
    domain="x > 0",
    stability="from its enclosure: for large x the terms of the textbook's derivative cancel",
    source="DLMF 10.29.5",
)

i1: Op = row(
    "i1",
    scipy_special("i1"),
    Elementwise(lambda g, y, x: g * _bessel_slope(x, 1)),
    points=(
        *(
            Point("x = 0", "limit", (0.0,), (0.5,), dtype=dtype).because(
                "TensorFlow puts 1 in the place of 0/0 (math_grad.py, _BesselI1Grad)",
                tensorflow=(1.0,),
            )
            for dtype in ("float64", "float32")
        ),
        *(
            Point(
                "the result overflows", "limit", (x,), (np.inf,), value=np.copysign(np.inf, x)
            ).because("I_0 - I_1 / x is inf - inf", frameworks=(np.nan,))
            for x in (1e300, -1e300)
        ),
    ),
).says(
    "I_1(x), the modified Bessel function of order 1",
    "(I_0(x) + I_2(x)) / 2",
    stability="not I_0(x) - I_1(x) / x, which is 0/0 at 0",
    source="DLMF 10.29.1",
)

i0: Op = row("i0", scipy_special("i0"), Elementwise(lambda g, y, x: g * i1(x))).says(
    "I_0(x), the modified Bessel function of order 0", "I_1(x)", source="DLMF 10.29.3"
)


def _bessel_slope(x: Value, n: int) -> Value:
    below = i0(x) if n == 1 else i1(x) if n == 2 else bessel_i(x, n=n - 1)
    return 0.5 * (below + bessel_i(x, n=n + 1))


bessel_moment: Op = internal(
    "bessel_moment",
    values.bessel_moment,
    Elementwise(lambda g, y, x, k: -(g * (sign(x) * bessel_moment(x, k=k + 1)))),
    keywords={"k": REQUIRED},
    points=(Point("x = 0", "kink", (0.0,), (0.0,), keywords={"k": 1}),),
    kinks_at=lambda x, k: np.equal(x, 0),
).says(
    "(-d/du)^k of exp(-u) I_0(u) at u = |x|",
    "-sign(x) times the one of order k + 1",
    source="DLMF 10.32.2, 10.40.1",
)

row(
    "i0e",
    scipy_special("i0e"),
    Elementwise(lambda g, y, x: -(g * (sign(x) * bessel_moment(x, k=1)))),
    points=(
        Point("x = 0", "kink", (0.0,), (0.0,)).because("the least subgradient"),
        FAR_OUT,
    ),
    kinks_at=lambda x: np.equal(x, 0),
).says(
    "exp(-|x|) I_0(x)",
    "i1e(x) - sign(x) i0e(x)",
    stability="as one integral: for large x the two terms of the textbook's derivative cancel",
    source="DLMF 10.32.2, 10.40.1",
)

row(
    "i1e",
    scipy_special("i1e"),
    Elementwise(lambda g, y, x: g * (bessel_moment(x, k=2) - bessel_moment(x, k=1))),
    points=(Point("x = 0", "limit", (0.0,), (0.5,)), FAR_OUT),
).says(
    "exp(-|x|) I_1(x)",
    "i0e(x) - i1e(x) / x - sign(x) i1e(x)",
    stability="as a difference of two integrals, one of them small for large x, where the "
    "terms of the textbook's derivative cancel; they are 0/0 at 0. Around its zero 1.545 the "
    "derivative is right to a few units of 1 and not of itself",
    source="DLMF 10.32.2, 10.40.1",
)

"""The regularised incomplete gamma and beta functions, and Hurwitz' zeta function.

Their derivatives with respect to the parameters are internal rows of any order, whose values come
from their enclosures.
"""

from __future__ import annotations

from reference_engine.arithmetic import special as values
from reference_engine.arithmetic.special import scipy_special
from reference_engine.op import REQUIRED, Op, internal, row
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

gamma_density: Op = internal(
    "gamma_density",
    values.from_enclosure("gamma_density"),
    Elementwise(
        lambda g, y, a, x, n: g * gamma_density(a, x, n=n + 1),
        lambda g, y, a, x, n: g * _density_slope(y, a, x, n),
    ),
    arrays=("a", "x"),
    keywords={"n": REQUIRED},
).says(
    "the derivative of order n of x^(a - 1) exp(-x) / Gamma(a) by a",
    "that of order n + 1; ((a - 1) / x - 1) times itself plus n / x times the one of order n - 1",
    domain="a > 0, x > 0",
    source="DLMF 8.2.4",
)


def _density_slope(y: Value, a: Value, x: Value, n: int) -> Value:
    slope = ((a - 1) / x - 1) * y
    return slope + n * gamma_density(a, x, n=n - 1) / x if n else slope


gammainc_slope: Op = internal(
    "gammainc_slope",
    values.from_enclosure("gammainc_slope"),
    Elementwise(
        lambda g, y, a, x, n: g * gammainc_slope(a, x, n=n + 1),
        lambda g, y, a, x, n: g * gamma_density(a, x, n=n),
    ),
    arrays=("a", "x"),
    keywords={"n": REQUIRED},
).says(
    "the derivative of order n of gammainc(a, x) by a",
    "the one of order n + 1, gamma_density of order n",
    domain="a > 0, x >= 0",
    source="DLMF 8.2.4",
)

row(
    "gammainc",
    scipy_special("gammainc"),
    Elementwise(
        lambda g, y, a, x: g * gammainc_slope(a, x, n=1),
        lambda g, y, a, x: g * gamma_density(a, x, n=0),
    ),
    arrays=("a", "x"),
    aliases=("igamma",),
).says(
    "P(a, x), the distribution function of the gamma distribution: the integral of "
    "t^(a - 1) exp(-t) from 0 to x, divided by Gamma(a)",
    "by x: x^(a - 1) exp(-x) / Gamma(a)",
    domain="a > 0, x >= 0",
    source="DLMF 8.2.4",
)

row(
    "gammaincc",
    scipy_special("gammaincc"),
    Elementwise(
        lambda g, y, a, x: -(g * gammainc_slope(a, x, n=1)),
        lambda g, y, a, x: -(g * gamma_density(a, x, n=0)),
    ),
    arrays=("a", "x"),
    aliases=("igammac",),
).says(
    "Q(a, x) = 1 - P(a, x), accurate where it is small",
    "minus those of gammainc",
    domain="a > 0, x >= 0",
    source="DLMF 8.2.4",
)

beta_density: Op = internal(
    "beta_density",
    values.from_enclosure("beta_density"),
    Elementwise(
        lambda g, y, a, b, x, n, m: g * beta_density(a, b, x, n=n + 1, m=m),
        lambda g, y, a, b, x, n, m: g * beta_density(a, b, x, n=n, m=m + 1),
        lambda g, y, a, b, x, n, m: g * _beta_slope(y, a, b, x, n, m),
    ),
    arrays=("a", "b", "x"),
    keywords={"n": REQUIRED, "m": REQUIRED},
).says(
    "the derivative of order n by a and m by b of x^(a - 1) (1 - x)^(b - 1) / Beta(a, b)",
    "those of orders n + 1 and m + 1; by x with the logarithmic derivative "
    "(a - 1) / x - (b - 1) / (1 - x)",
    domain="a > 0, b > 0, 0 < x < 1",
    source="DLMF 8.17.2",
)


def _beta_slope(y: Value, a: Value, b: Value, x: Value, n: int, m: int) -> Value:
    slope = ((a - 1) / x - (b - 1) / (1 - x)) * y
    if n:
        slope = slope + n * beta_density(a, b, x, n=n - 1, m=m) / x
    return slope - m * beta_density(a, b, x, n=n, m=m - 1) / (1 - x) if m else slope


betainc_slope: Op = internal(
    "betainc_slope",
    values.from_enclosure("betainc_slope"),
    Elementwise(
        lambda g, y, a, b, x, n, m: g * betainc_slope(a, b, x, n=n + 1, m=m),
        lambda g, y, a, b, x, n, m: g * betainc_slope(a, b, x, n=n, m=m + 1),
        lambda g, y, a, b, x, n, m: g * beta_density(a, b, x, n=n, m=m),
    ),
    arrays=("a", "b", "x"),
    keywords={"n": REQUIRED, "m": REQUIRED},
).says(
    "the derivative of order n by a and m by b of betainc(a, b, x)",
    "those of orders n + 1 and m + 1, beta_density of the same orders",
    domain="a > 0, b > 0, 0 <= x <= 1",
    source="DLMF 8.17.2",
)

row(
    "betainc",
    scipy_special("betainc"),
    Elementwise(
        lambda g, y, a, b, x: g * betainc_slope(a, b, x, n=1, m=0),
        lambda g, y, a, b, x: g * betainc_slope(a, b, x, n=0, m=1),
        lambda g, y, a, b, x: g * beta_density(a, b, x, n=0, m=0),
    ),
    arrays=("a", "b", "x"),
).says(
    "I_x(a, b), the distribution function of the beta distribution: the integral of "
    "t^(a - 1) (1 - t)^(b - 1) from 0 to x, divided by Beta(a, b)",
    "by x: x^(a - 1) (1 - x)^(b - 1) / Beta(a, b)",
    domain="a > 0, b > 0, 0 <= x <= 1",
    source="DLMF 8.17.2",
)

zeta_slope: Op = internal(
    "zeta_slope",
    values.from_enclosure("zeta_slope"),
    Elementwise(
        lambda g, y, s, q, n: g * zeta_slope(s, q, n=n + 1),
        lambda g, y, s, q, n: -(g * (s * zeta_slope(s + 1, q, n=n) + n * _zeta(s + 1, q, n - 1))),
    ),
    arrays=("s", "q"),
    keywords={"n": REQUIRED},
).says(
    "the derivative of order n of zeta(s, q) by s",
    "the one of order n + 1, minus s times the one of order n at s + 1 and n times the one of "
    "order n - 1 there",
    domain="s > 1, q > 0",
    source="DLMF 25.11.1, 25.11.17",
)

zeta: Op = row(
    "zeta",
    scipy_special("zeta"),
    Elementwise(
        lambda g, y, s, q: g * zeta_slope(s, q, n=1),
        lambda g, y, s, q: -(g * (s * zeta(s + 1, q))),
    ),
    arrays=("s", "q"),
).says(
    "Hurwitz' zeta function, the sum of (q + k)^-s over k = 0, 1, 2, ...",
    "by q: -s zeta(s + 1, q)",
    domain="s > 1, q > 0",
    source="DLMF 25.11.1, 25.11.17",
)


def _zeta(s: Value, q: Value, n: int) -> Value:
    return zeta_slope(s, q, n=n) if n else zeta(s, q)

"""Integrals without an elementary form: of exponentials (Dawson's, exponential), of logarithms
(Spence's) and of waves (Fresnel's, sine and cosine).

Where the textbook's derivative loses digits, in itself or in its own derivatives, it is an internal
row of any order, whose value comes from its enclosure.
"""

from __future__ import annotations

from reference_engine.arithmetic import special as values
from reference_engine.arithmetic.constants import HALF_PI
from reference_engine.arithmetic.special import scipy_special
from reference_engine.op import REQUIRED, Op, Point, internal, row
from reference_engine.ops.arithmetic import square
from reference_engine.ops.trigonometric import cos, sin
from reference_engine.rules import Elementwise


def _slope(name: str, derivative: str, domain: str = "all real numbers") -> Op:
    """The derivatives of order k >= 1 of a row, each of them the derivative of the one before."""
    slope: Op = internal(
        name,
        values.from_enclosure(name),
        Elementwise(lambda g, y, x, k: g * slope(x, k=k + 1)),
        arrays=("x",),
        keywords={"k": REQUIRED},
    ).says(
        f"the derivative of order k of {name.removesuffix('_slope')}(x): {derivative} for k = 1",
        "the one of order k + 1",
        domain=domain,
    )
    return slope


dawsn_slope = _slope("dawsn_slope", "1 - 2 x dawsn(x)")

row("dawsn", scipy_special("dawsn"), Elementwise(lambda g, y, x: g * dawsn_slope(x, k=1))).says(
    "Dawson's integral, exp(-x^2) * integral of exp(t^2) from 0 to x",
    "1 - 2 x dawsn(x)",
    stability="from its enclosure: for large x the terms of the textbook's derivative cancel",
    source="DLMF 7.2.5, 7.10.3",
)

expi_slope = _slope("expi_slope", "exp(x) / x", "x != 0")

row(
    "expi",
    scipy_special("expi"),
    Elementwise(lambda g, y, x: g * expi_slope(x, k=1)),
).says(
    "Ei(x), the principal value of the integral of exp(t) / t from -inf to x",
    "exp(x) / x",
    domain="x != 0",
    stability="from its enclosure: exp(x) overflows before the quotient does",
    source="DLMF 6.2.5",
)

expn: Op = row(
    "expn",
    values.expn,
    Elementwise(lambda g, y, x, n: -(g * expn(x, n=n - 1))),
    keywords={"n": REQUIRED},
).says(
    "E_n(x), of whole order n: the integral of exp(-x t) / t^n from 1 to inf",
    "-E_(n - 1)(x)",
    domain="x > 0",
    source="DLMF 8.19.13",
)

spence_slope = _slope("spence_slope", "log(x) / (1 - x)", "x > 0")

row(
    "spence",
    scipy_special("spence"),
    Elementwise(lambda g, y, x: g * spence_slope(x, k=1)),
    points=(Point("x = 1", "limit", (1.0,), (-1.0,)),),
).says(
    "Spence's integral, of log(t) / (1 - t) from 1 to x: the dilogarithm of 1 - x",
    "log(x) / (1 - x)",
    domain="x > 0",
    stability="from its enclosure: the textbook's derivative is 0/0 at 1",
    source="DLMF 25.12.1",
)

row(
    "fresnel_sin",
    values.part_of("fresnel", 0),
    Elementwise(lambda g, y, x: g * sin(HALF_PI * square(x))),
).says(
    "S(x), Fresnel's integral of sin(pi t^2 / 2) from 0 to x",
    "sin(pi x^2 / 2)",
    source="DLMF 7.2.8",
)

row(
    "fresnel_cos",
    values.part_of("fresnel", 1),
    Elementwise(lambda g, y, x: g * cos(HALF_PI * square(x))),
).says(
    "C(x), Fresnel's integral of cos(pi t^2 / 2) from 0 to x",
    "cos(pi x^2 / 2)",
    source="DLMF 7.2.7",
)

si_slope = _slope("si_slope", "sin(x) / x")

row("si", values.part_of("sici", 0), Elementwise(lambda g, y, x: g * si_slope(x, k=1))).says(
    "Si(x), the sine integral: of sin(t) / t from 0 to x",
    "sin(x) / x",
    stability="from its enclosure: the textbook's derivative is 0/0 at 0",
    source="DLMF 6.2.9",
)

ci_slope = _slope("ci_slope", "cos(x) / x", "x != 0")

row("ci", values.part_of("sici", 1), Elementwise(lambda g, y, x: g * ci_slope(x, k=1))).says(
    "Ci(|x|), the cosine integral: minus the one of cos(t) / t from |x| to inf",
    "cos(x) / x",
    domain="x != 0",
    source="DLMF 6.2.11",
)

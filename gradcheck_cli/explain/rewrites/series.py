"""Removable singularities: the Taylor series near 0, the formula elsewhere, in a double where.

The derivative of a quotient like sin(x) / x is a difference of two numbers of the size of 1 / x, so
the series is used up to |x| = 1, where the difference costs only two bits. (DLMF 4.19, 4.24, 4.33.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from gradcheck_cli.domain.dtypes import FloatFormat
from gradcheck_cli.domain.program import CONSTANT
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.explain.algebra.expressions import Expr, ShapeMismatch
from gradcheck_cli.explain.algebra.patterns import parsed
from gradcheck_cli.explain.rewrites.rule import Proposal, Rewrite, Site

_MOST_TERMS = 40


class Series(Rewrite):
    """`left` as x^lead * sum of coefficient(k) x^(step k) where |x| < radius."""

    last = True

    def __init__(
        self,
        left: str,
        coefficient: Callable[[int], float],
        *conditions: str,
        step: int = 2,
        lead: int = 0,
        argument: str = "x",
        front: str = "1",
        far: str = "",
        radius: float = 1.0,
    ) -> None:
        """`left` is `front` times x^lead times the series in `argument`; `far` is a formula in `u`
        that is accurate where |u| >= radius."""
        self.left = left
        self.conditions = conditions
        self._argument = argument
        self._front = front
        self._far = far
        self._radius = radius
        self.text = f"{left} -> its Taylor series near 0, in a double where"
        self._coefficient = coefficient
        self._step = step
        self._lead = lead

    def proposals(self, site: Site) -> Iterator[Proposal]:
        shop = site.workshop
        for fit in site.fits(self.left):
            try:
                argument = shop.instance(parsed(self._argument), fit.bindings)
                if argument.op == CONSTANT:
                    continue
                front = shop.instance(parsed(self._front), fit.bindings)
                new = site.fitted(self._double_where(site, argument, front, fit.bindings), fit)
                stated = [shop.instance(parsed(text), fit.bindings) for text in self.conditions]
            except (ShapeMismatch, ZeroDivisionError, OverflowError):
                continue
            yield Proposal(self, new, tuple(stated), at_zero(site, argument))

    def _double_where(self, site: Site, x: Expr, front: Expr, bindings: Mapping[str, Any]) -> Expr:
        shop = site.workshop

        def far(away: Expr) -> Expr:
            if self._far:
                return shop.instance(parsed(self._far), {**bindings, "u": away})
            return shop.instance(parsed(self.left), {"x": away})

        coefficients = _coefficients(self._coefficient, site.fmt, self._radius**self._step)
        part = Part(coefficients, self._step, self._lead, self._radius)
        return double_where(site, x, part, front, far)


@dataclass(frozen=True, slots=True)
class Part:
    """x^lead * sum of coefficient_k x^(step k), accurate enough where |x| < radius."""

    coefficients: tuple[float, ...]
    step: int
    lead: int
    radius: float


def at_zero(site: Site, x: Expr) -> tuple[str, Expr]:
    """The kink of a series: the limit, at 0, where the original form has no derivative."""
    return "the limit", site.call("equal", x, site.workshop.number(0))


def double_where(site: Site, x: Expr, part: Part, front: Expr, far: Callable[[Expr], Expr]) -> Expr:
    """`front` times the series near 0, and `far` of the argument elsewhere."""
    shop, call = site.workshop, site.call
    lead = None
    if x.op == "sqrt" and part.step == 2 and part.lead % 2 == 0:
        # a series in the square avoids the root, whose derivative is infinite at 0
        square = x.args[0]
        near = call("less", square, shop.number(part.radius**2))
        away = call("sqrt", call("where", near, shop.number(1), square))
        lead = shop.power(square, part.lead // 2) if part.lead else None
    else:
        near = call("less", call("abs", x), shop.number(part.radius))
        square = shop.power(x, part.step)
        away = call("where", near, shop.number(1), x)
        lead = shop.power(x, part.lead) if part.lead else None
    series = _polynomial(site, part.coefficients, square)
    if lead is not None:
        series = shop.multiply(lead, series)
    return call("where", near, shop.multiply(front, series), far(away))


def _polynomial(site: Site, coefficients: Sequence[float], u: Expr) -> Expr:
    """The polynomial by Horner's rule."""
    shop = site.workshop
    total = shop.number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = shop.add(shop.number(c), shop.multiply(u, total))
    return total


@cache
def _coefficients(
    coefficient: Callable[[int], float], fmt: FloatFormat, edge: float
) -> tuple[float, ...]:
    return coefficients_for((coefficient(k) for k in range(_MOST_TERMS)), fmt, edge)


def coefficients_for(series: Iterable[float], fmt: FloatFormat, edge: float) -> tuple[float, ...]:
    """The coefficients that the derivative needs at the edge, where each power multiplies a term by
    `edge`: the omitted ones, times k, are below half an ulp of it. All of them if they are too
    few."""
    coefficients: list[float] = []
    for k, c in enumerate(series):
        coefficients.append(_short(c, fmt))
        size = max(abs(c) * max(j, 1) * edge**j for j, c in enumerate(coefficients[:3]))
        # every other coefficient of some series is 0
        if k > 2 and all(
            2 * j * abs(coefficients[j]) * edge**j < fmt.unit_roundoff * size for j in (k - 1, k)
        ):
            return tuple(coefficients[:-2])
    return tuple(coefficients)


def _short(value: float, fmt: FloatFormat) -> float:
    """The shortest decimal that rounds to the same number of the format."""
    for digits in range(1, 17):
        short = float(f"{value:.{digits - 1}e}")
        if fmt.round(short) == fmt.round(value):
            return short
    return value


def _alternating(factorial: Callable[[int], int]) -> Callable[[int], float]:
    return lambda k: (-1) ** k / math.factorial(factorial(k))


def _positive(factorial: Callable[[int], int]) -> Callable[[int], float]:
    return lambda k: 1 / math.factorial(factorial(k))


@cache
def bernoulli(n: int) -> float:
    """B_n, with B_1 = -1/2 (DLMF 24.2.1)."""
    from fractions import Fraction

    numbers: list[Fraction] = []
    for m in range(n + 1):
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers)), Fraction(0))
        numbers.append(Fraction(1) if m == 0 else -total / (m + 1))
    return float(numbers[n])


def _langevin(k: int) -> float:
    """coth x - 1/x = sum over n >= 1 of 4^n B_2n x^(2n - 1) / (2n)! (DLMF 4.33.6)."""
    n = k + 1
    return 4.0**n * bernoulli(2 * n) / math.factorial(2 * n)


def _tanh(k: int) -> float:
    """tanh x = sum over n >= 1 of 4^n (4^n - 1) B_2n x^(2n - 1) / (2n)! (DLMF 4.33.3)."""
    n = k + 1
    return 4.0**n * (4.0**n - 1) * bernoulli(2 * n) / math.factorial(2 * n)


def _planck(k: int) -> float:
    """x / (e^x - 1) = sum of B_k x^k / k! (DLMF 24.2.1)."""
    return bernoulli(k) / math.factorial(k)


_SINC = _alternating(lambda k: 2 * k + 1)
_EXPREL = _positive(lambda k: k + 1)

RULES: tuple[Rewrite, ...] = (
    Series("sin(x) / x", _SINC),
    Series("sinh(x) / x", _positive(lambda k: 2 * k + 1)),
    Series("(exp(x) - 1) / x", _EXPREL, step=1),
    Series("expm1(x) / x", _EXPREL, step=1),
    Series(
        "expm1(x * y) / x", _EXPREL, step=1, argument="x * y", front="y", far="y * expm1(u) / u"
    ),
    Series(
        "(exp(a * x) - exp(b * x)) / x",
        _EXPREL,
        step=1,
        argument="(a - b) * x",
        front="(a - b) * exp(b * x)",
        far="(a - b) * exp(b * x) * expm1(u) / u",
    ),
    Series(
        "(x ** y - 1) / y",
        _EXPREL,
        "x > 0",
        step=1,
        argument="y * log(x)",
        front="log(x)",
        far="log(x) * expm1(u) / u",
    ),
    Series("(1 - exp(x)) / x", lambda k: -_EXPREL(k), step=1),
    Series("(1 - cos(x)) / x ** 2", _alternating(lambda k: 2 * k + 2)),
    Series("(1 - cos(x)) / x", _alternating(lambda k: 2 * k + 2), lead=1),
    Series("(cosh(x) - 1) / x ** 2", _positive(lambda k: 2 * k + 2)),
    Series("(x - sin(x)) / x ** 3", _alternating(lambda k: 2 * k + 3)),
    Series("(sinh(x) - x) / x ** 3", _positive(lambda k: 2 * k + 3)),
    Series("x - sin(x)", _alternating(lambda k: 2 * k + 3), lead=3),
    Series("sinh(x) - x", _positive(lambda k: 2 * k + 3), lead=3),
    Series("exp(x) - 1 - x", _positive(lambda k: k + 2), step=1, lead=2),
    Series("expm1(x) - x", _positive(lambda k: k + 2), step=1, lead=2),
    Series("(exp(x) - 1 - x) / x ** 2", _positive(lambda k: k + 2), step=1),
    Series("1 / tanh(x) - 1 / x", _langevin, lead=1),
    Series("x / (exp(x) - 1)", _planck, step=1),
    Series("x / expm1(x)", _planck, step=1),
    Series("atan(x) / x", lambda k: (-1) ** k / (2 * k + 1), radius=0.5),
    Series("tanh(x) / x", _tanh, radius=0.5),
    Series("tan(x) / x", lambda k: abs(_tanh(k)), radius=0.5),
    Series("log1p(x) / x", lambda k: (-1) ** k / (k + 1), step=1, radius=0.25),
    Series("log(1 + x) / x", lambda k: (-1) ** k / (k + 1), step=1, radius=0.25),
    Series("x - log1p(x)", lambda k: (-1) ** k / (k + 2), step=1, lead=2, radius=0.25),
    Series("x - log(1 + x)", lambda k: (-1) ** k / (k + 2), step=1, lead=2, radius=0.25),
    Series("x - tanh(x)", lambda k: -_tanh(k + 1), lead=3, radius=0.5),
    Series("x - atan(x)", lambda k: (-1) ** k / (2 * k + 3), lead=3, radius=0.5),
)

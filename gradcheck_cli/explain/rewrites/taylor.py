"""Replace a function of one number near 0 by its Taylor series.

Power series are computed in ball arithmetic (python-flint's `arb_series`): cancelling terms and
removable singularities are divided exactly, leading powers first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, CUSTOM, INPUT
from gradcheck_cli.domain.thresholds import Residue, Spread
from gradcheck_cli.explain.algebra.expressions import Expr, ShapeMismatch, ordered
from gradcheck_cli.explain.rewrites.rule import Proposal, Rewrite, Site
from gradcheck_cli.explain.rewrites.series import Part, at_zero, coefficients_for, double_where

TERMS = 48  # of the series; a division removes some
BITS = 512  # the longest of these series lose a few dozen
ZERO: Residue = 2.0**-300  # a coefficient below this is zero, rounded
MOST = 16  # the most coefficients that a person would write
RADII: tuple[Spread, ...] = (
    1.0,
    0.5,
    0.25,
    0.125,
)  # powers of two, so that only the last is rounded
LARGEST = 24  # the most operations of a function to expand

Function = Callable[..., Any]


class _NoSeries(Exception):
    """The function has no Taylor series at 0, or none that can be computed here."""


_METHODS = "sqrt rsqrt exp log sin cos tan asin acos atan erf erfc"  # of arb_series
FUNCTIONS: Mapping[str, Function] = {
    **{name: methodcaller(name) for name in _METHODS.split()},
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negative": lambda a: -a,
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1 / a,
    "expm1": lambda a: a.exp() - 1,
    "log1p": lambda a: (1 + a).log(),
    "sinh": lambda a: (a.exp() - (-a).exp()) / 2,
    "cosh": lambda a: (a.exp() + (-a).exp()) / 2,
    "tanh": lambda x: 1 - 2 / ((2 * x).exp() + 1),
    "asinh": lambda a: (a + (1 + a * a).sqrt()).log(),
    "atanh": lambda a: ((1 + a).log() - (1 - a).log()) / 2,
    "sigmoid": lambda a: 1 / (1 + (-a).exp()),
    "softplus": lambda a: (1 + a.exp()).log(),
}


class Taylor(Rewrite):
    """Proposes a series only where it is worth it: for a sum, difference or quotient near 0."""

    text = "f(x), where terms cancel near x = 0 -> its Taylor series there, in a double where"
    conditions = ()
    last = True

    def proposals(self, site: Site) -> Iterator[Proposal]:
        if site.expr.op not in ("add", "subtract", "divide", "multiply"):
            return
        for x in _arguments(site.expr):
            value = site.value(x)
            if value is None or not np.any(np.abs(value) < RADII[-1]):
                continue
            try:
                one, far = site.workshop.number(1), partial(_at, site, x)
                new = double_where(site, x, _part(site, x), one, far)
            except (_NoSeries, ShapeMismatch):
                continue
            yield Proposal(self, new, (), at_zero(site, x))


def _at(site: Site, x: Expr, away: Expr) -> Expr:
    return site.workshop.forest.replaced(site.expr, x, away)


def _arguments(expr: Expr) -> Iterator[Expr]:
    """The subexpressions that the whole expression is an elementwise function of, nearest to the
    inputs first."""
    inside = [part for part in ordered(expr) if part.op != CONSTANT]
    for x in inside:
        if x is expr or x.kind != "float" or x.shape != expr.shape:
            continue
        between = [part for part in ordered(expr, stop=x) if part is not x]
        if len(between) <= LARGEST and all(_has_expansion(part, x) for part in between):
            yield x


def _has_expansion(part: Expr, x: Expr) -> bool:
    if part.op == "power":
        return part.args[1].op == CONSTANT
    return part.op == CONSTANT or (
        part.op in FUNCTIONS and part.op not in (INPUT, CUSTOM) and part.shape in ((), x.shape)
    )


def _part(site: Site, x: Expr) -> Part:
    """The series of the expression in `x`, as long as needed."""
    coefficients = _developed_in(site.expr, x)
    lead = next((k for k, c in enumerate(coefficients) if c), None)
    if lead is None:
        raise _NoSeries("it is 0")
    rest = coefficients[lead:]
    step = 2 if not any(rest[1::2]) else 1
    for radius in RADII:
        found = coefficients_for(iter(rest[::step]), site.fmt, radius**step)
        if len(found) < min(len(rest[::step]), MOST):
            return Part(found, step, lead, radius)
    raise _NoSeries("it converges too slowly")


def _developed_in(expr: Expr, x: Expr) -> list[float]:
    """The coefficients of `expr` as a power series in `x`."""
    from flint import arb, arb_series, ctx

    before = ctx.cap, ctx.prec
    ctx.cap, ctx.prec = TERMS, BITS
    try:
        known: dict[int, Any] = {id(x): arb_series([0, 1])}
        for part in ordered(expr, stop=x):
            if id(part) not in known:
                known[id(part)] = _series(part, [known[id(arg)] for arg in part.args], arb_series)
        coefficients = [arb(c) for c in known[id(expr)].coeffs()]
        if not all(c.is_finite() and c.rad() < ZERO for c in coefficients):
            raise _NoSeries("a coefficient is not known")
        found = [float(c) for c in coefficients]
        return found + [0.0] * (TERMS - len(found))  # exact for polynomials
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise _NoSeries(str(error)) from error
    finally:
        ctx.cap, ctx.prec = before


def _series(part: Expr, args: list[Any], make: Callable[[list[Any]], Any]) -> Any:
    """One operation on power series. Raises the exceptions of flint if there is no series."""
    if part.op == CONSTANT:
        return make([part.value])
    if part.op == "power":
        exponent = float(part.args[1].value)  # type: ignore[arg-type]
        if exponent != int(exponent) or abs(exponent) > TERMS // 4:
            raise _NoSeries("a root, or too high a power")
        whole = make([1])
        for _ in range(abs(int(exponent))):
            whole = whole * args[0]
        made = whole if exponent >= 0 else 1 / whole
    else:
        made = FUNCTIONS[part.op](*args)
    # round tiny coefficients to zero, so that a division can cancel leading powers
    return make([0 if c.contains(0) and abs(c) < ZERO else c for c in made.coeffs()] or [0])


RULES: tuple[Rewrite, ...] = (Taylor(),)

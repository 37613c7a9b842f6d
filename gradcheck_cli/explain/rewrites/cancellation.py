"""Differences of nearly equal numbers.

Sources: Hamming, Numerical methods for scientists and engineers, ch. 3; Kahan, Miscalculating area
and angles of a needle-like triangle, 2014; Smith, Algorithm 116, CACM 5, 1962; Herbie,
core/rules.rkt (flip--, flip3--, diff-sin, diff-cos, frac-sub).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product

from gradcheck_cli.explain.algebra.expressions import Expr, ordered
from gradcheck_cli.explain.algebra.matching import same_number
from gradcheck_cli.explain.algebra.normal_form import factors_of
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand, rule


@by_hand()
def what_cancels(site: Site) -> Iterator[Expr]:
    """x + y - y -> x, x * y / y -> x, sqrt(x) ** 2 -> x"""
    shop = site.workshop
    norm = shop.norm(site.expr)
    if norm.kind == "call" and norm.op == site.expr.op:
        return
    simple = shop.rebuilt(norm)
    parts = {id(part.expr) for part, _ in norm.parts if part.expr is not None}
    parts -= {id(simple), id(site.expr)}
    if len(ordered(simple, known=parts)) < len(ordered(site.expr, known=parts)):
        yield simple


@by_hand()
def binomial(site: Site) -> Iterator[Expr]:
    """c * x ** n - c * n * r * x ** (n - 1) + ... + c * (-r) ** n -> c * (x - r) ** n"""
    shop = site.workshop
    norm = shop.norm(site.expr)
    if norm.kind != "sum" or norm.value == 0:
        return
    factors = [(term.parts if term.kind == "product" else ((term, 1.0),)) for term, _ in norm.parts]
    if any(len(part) != 1 or part[0][0] is not factors[0][0][0] for part in factors):
        return
    coefficients = {part[0][1]: c for part, (_, c) in zip(factors, norm.parts, strict=True)}
    n = len(coefficients)
    if n < 4 or set(coefficients) != set(map(float, range(1, n + 1))):
        return  # other rules handle shorter ones
    root = -coefficients[n - 1.0] / (n * coefficients[float(n)])
    coefficients[0.0] = norm.value
    wanted = (
        (math.comb(n, int(k)) * coefficients[float(n)] * (-root) ** (n - k), k)
        for k in coefficients
    )
    if all(same_number(c, coefficients[k]) for c, k in wanted):
        base = shop.subtract(shop.expr(factors[0][0][0]), shop.number(root))
        yield shop.multiply(shop.number(coefficients[float(n)]), shop.power(base, n))


@by_hand()
def divided_through(site: Site) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """x ** n / (a + b * x ** n) -> 1 / (a * (1 / x) ** n + b)"""
    shop = site.workshop
    norm = shop.norm(site.expr)
    if norm.kind != "product":
        return
    below = [factor for factor, e in norm.parts if e == -1 and factor.kind == "sum"]
    for total, (x, n) in product(below, norm.parts):
        terms = [(shop.algebra.product([(term, 1.0), (x, -n)]), c) for term, c in total.parts]
        rid = [
            a.kind == "number" or len(factors_of(a)[1]) < len(factors_of(b)[1])
            for (a, _), (b, _) in zip(terms, total.parts, strict=True)
        ]
        if n <= 0 or not any(rid):
            continue
        # the derivative of 1 / x ** 2 would contain x ** 4
        inverse = shop.power(shop.divide(shop.number(1), shop.expr(x)), n)
        constant = shop.multiply(shop.number(total.value), inverse)
        divided = shop.add(constant, shop.expr(shop.algebra.sum(terms)))
        rest = shop.algebra.product([(norm, 1.0), (x, -n), (total, 1.0)])
        new = shop.divide(shop.expr(rest), divided)
        yield new, (site.call("not_equal", shop.expr(x), shop.number(0)),)


_HERON = (
    "(a + b + c_) / 2 * ((a + b + c_) / 2 - a) * ((a + b + c_) / 2 - b) * ((a + b + c_) / 2 - c_)"
)
_KAHAN = "(a + (b + c_)) * (c_ - (a - b)) * (c_ + (a - b)) * (a + (b - c_)) / 16"
_SORTED = {
    "a": "maximum(a, maximum(b, c_))",
    "b": "maximum(minimum(a, b), minimum(maximum(a, b), c_))",
    "c_": "minimum(a, minimum(b, c_))",
}
"""The sides of a triangle, longest first."""

RULES: tuple[Rewrite, ...] = (
    what_cancels,
    binomial,
    rule("sqrt(x) - sqrt(y)", "(x - y) / (sqrt(x) + sqrt(y))", "x > 0", "y > 0"),
    rule("sqrt(1 + x) - 1", "x / (1 + sqrt(1 + x))", "x > -1"),
    rule("sqrt(b ** 2 + y) - b", "y / (sqrt(b ** 2 + y) + b)", "b > 0"),
    rule("sqrt(b ** 2 + 1) - b", "1 / (sqrt(b ** 2 + 1) + b)", "b > 0"),
    rule("sqrt(b ** 2 - 1) - b", "-1 / (sqrt(b ** 2 - 1) + b)", "b > 1"),
    rule("sqrt(x ** 2 + y) - abs(x)", "y / (sqrt(x ** 2 + y) + abs(x))", "x != 0"),
    rule("sqrt(x) / sqrt(y) - 1", "(x - y) / (sqrt(y) * (sqrt(x) + sqrt(y)))", "x > 0", "y > 0"),
    rule("sqrt(b ** 2 + y) + b", "y / (sqrt(b ** 2 + y) - b)", "b < 0"),
    rule("x ** n - y ** n", "y ** n * expm1(n * log1p((x - y) / y))", "x > 0", "y > 0"),
    rule("x ** 2 / y", "x * (x / y)"),
    divided_through,
    rule(
        "cbrt(x) - cbrt(y)",
        "(x - y) / (cbrt(x) ** 2 + cbrt(x) * cbrt(y) + cbrt(y) ** 2)",
        "(x != 0) | (y != 0)",
    ),
    rule("1 / x - 1 / y", "(y - x) / (x * y)"),
    rule("x * log(x) - (x + 1) * log(x + 1)", "-log(x + 1) - x * log1p(1 / x)", "x > 0"),
    rule("log(x) - log(y)", "log1p((x - y) / y)", "x > 0", "y > 0"),
    rule("a ** 2 - b ** 2", "(a - b) * (a + b)"),
    rule("a ** 2 - 2 * a * b + b ** 2", "(a - b) ** 2"),
    rule("a ** 2 + 2 * a * b + b ** 2", "(a + b) ** 2"),
    rule("x ** 2 - 2 * x + 1", "(x - 1) ** 2"),
    rule("x ** 2 + 2 * x + 1", "(x + 1) ** 2"),
    rule("x ** 3 - 3 * x ** 2 + 3 * x - 1", "(x - 1) ** 3"),
    rule("x ** 3 + 3 * x ** 2 + 3 * x + 1", "(x + 1) ** 3"),
    rule("sin(x) - sin(y)", "2 * cos((x + y) / 2) * sin((x - y) / 2)"),
    rule("cos(x) - cos(y)", "-2 * sin((x + y) / 2) * sin((x - y) / 2)"),
    rule("tan(x) - sin(x)", "2 * tan(x) * sin(x / 2) ** 2"),
    rule("tan(x) - tan(y)", "sin(x - y) / (cos(x) * cos(y))"),
    rule("atan(x) - atan(y)", "atan2(x - y, 1 + x * y)", "1 + x * y > 0"),
    rule("1 - cos(x)", "2 * sin(x / 2) ** 2"),
    rule("log(cos(x))", "log1p(-2 * sin(x / 2) ** 2)", "cos(x) > 0"),
    rule("(1 - cos(x)) / sin(x)", "tan(x / 2)"),
    rule(_HERON, _KAHAN, "a >= b", "b >= c_"),
    rule(
        _HERON,
        re.sub(r"\bc_\b|\b[ab]\b", lambda side: _SORTED[side.group()], _KAHAN),
        text=f"{_HERON} -> Kahan's formula, the sides sorted by maximum and minimum",
    ),
    rule(
        "(a * u + b * v) / (u ** 2 + v ** 2)",
        "(a + b * (v / u)) / (u + v * (v / u))",
        "abs(u) >= abs(v)",
    ),
    rule(
        "x ** -0.5 - y ** -0.5",
        "(y - x) / (sqrt(x) * sqrt(y) * (sqrt(x) + sqrt(y)))",
        "x > 0",
        "y > 0",
    ),
    rule("1 - a / (a + b)", "b / (a + b)"),
    rule("1 - 1 / (1 + x)", "x / (1 + x)"),
    rule("1 - x / sqrt(x ** 2 + y)", "y / (sqrt(x ** 2 + y) * (sqrt(x ** 2 + y) + x))", "x > 0"),
    rule("a / b - log(a / b) - 1", "(a - b) / b - log1p((a - b) / b)", "a / b > 0"),
    rule(
        "acos((a ** 2 + b ** 2 - e ** 2) / (2 * a * b))",
        "2 * atan(sqrt((e + (a - b)) * (e - (a - b)) / ((a + b + e) * (a + b - e))))",
        "a > 0",
        "b > 0",
        "e > 0",
    ),
    rule("acos(1 - x)", "2 * asin(sqrt(x / 2))", "x > 0", "x < 2"),
    rule(
        "acos(sin(a) * sin(b) + cos(a) * cos(b) * cos(t))",
        "2 * asin(sqrt(sin((a - b) / 2) ** 2 + cos(a) * cos(b) * sin(t / 2) ** 2))",
    ),
    rule(
        "sqrt(a ** 2 + b ** 2 - 2 * a * b * cos(t))",
        "hypot(a - b, 2 * sqrt(a * b) * sin(t / 2))",
        "a * b > 0",
    ),
)

"""Fractions of polynomials: common factors are divided out exactly, and the rest is factored.

Exact arithmetic is python-flint's (`fmpq_mpoly`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from typing import Any

from gradcheck_cli.domain.program import CONSTANT
from gradcheck_cli.explain.algebra.expressions import Expr, ShapeMismatch, has_at_most, ordered
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand

LARGEST = 60  # the most operations, inputs and constants of an expression
MOST_ATOMS = 5
DENOMINATOR = 2**10  # the largest of a constant that a person meant exactly
HIGHEST = 8  # the highest power
MOST_TERMS = 2_000  # the most terms of a product to expand, in a few milliseconds
_RATIONAL = frozenset(
    ("add", "subtract", "multiply", "divide", "negative", "square", "reciprocal", "power")
)


def _is_rational(expr: Expr) -> bool:
    if expr.op == "power":
        exponent = expr.args[1]
        whole = exponent.op == CONSTANT and float(exponent.value or 0.5).is_integer()
        return whole and abs(float(exponent.value or 0)) <= HIGHEST
    return expr.op in _RATIONAL


def _operations_and_atoms(expr: Expr) -> tuple[list[Expr], list[Expr]]:
    """Its rational operations, arguments first, and the atoms that they are made of."""
    made: list[Expr] = []
    atoms: dict[Expr, None] = {}
    waiting = [(expr, False)]
    seen: set[int] = set()
    while waiting:
        part, ready = waiting.pop()
        if ready:
            made.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            if part.op == CONSTANT or not _is_rational(part):
                atoms[part] = None
            else:
                waiting.append((part, True))
                args = part.args[:1] if part.op == "power" else part.args
                waiting += [(arg, False) for arg in args]
    return made, list(atoms)


def _exact(constant: Expr) -> Fraction:
    value = Fraction(float(constant.value or 0))
    if value.denominator > DENOMINATOR:
        raise ShapeMismatch("no number that was meant exactly")
    return value


def _affordable(*fractions: tuple[Any, Any]) -> None:
    """Raises ShapeMismatch if the product of all of them is too long."""
    if math.prod(max(len(above), len(below)) for above, below in fractions) > MOST_TERMS:
        raise ShapeMismatch("too long a polynomial")


def _operation(expr: Expr, args: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Numerator and denominator of the result."""
    (a, b), op = args[0], expr.op
    if op == "negative":
        return -a, b
    if op in ("square", "power", "reciprocal"):
        own = {"square": 2.0, "reciprocal": -1.0}.get(op)
        n = int(own if own is not None else float(expr.args[1].value or 0))
        _affordable(*[(a, b)] * abs(n))
        return (a**n, b**n) if n >= 0 else (b**-n, a**-n)
    c, d = args[1]
    _affordable((a, b), (c, d))
    if op == "multiply":
        return a * c, b * d
    if op == "divide":
        return a * d, b * c
    return (a * d + b * c if op == "add" else a * d - b * c), b * d


def _fraction(made: list[Expr], atoms: list[Expr], variables: list[Expr]) -> tuple[Any, Any]:
    from flint import Ordering, fmpq, fmpq_mpoly_ctx

    names = tuple(f"x{i}" for i in range(len(variables)))
    context = fmpq_mpoly_ctx.get(names, Ordering.lex)
    one = context.constant(1)
    known = {id(x): (gen, one) for x, gen in zip(variables, context.gens(), strict=True)}
    for atom in atoms:
        if atom.op == CONSTANT:
            value = _exact(atom)
            number = fmpq(value.numerator, value.denominator)
            known[id(atom)] = (context.constant(number), one)
    for part in made:
        args = part.args[:1] if part.op == "power" else part.args
        known[id(part)] = _operation(part, [known[id(arg)] for arg in args])
    above, below = known[id(made[-1])]
    if above.is_zero() or below.is_zero():
        raise ShapeMismatch("no fraction")
    common = above.gcd(below)
    return above // common, below // common


def _polynomial(site: Site, polynomial: Any, variables: list[Expr]) -> Expr:
    """The polynomial as a sum of products, positive terms first."""
    shop = site.workshop
    total = shop.number(0)
    terms = sorted(polynomial.terms(), key=lambda term: term[1] < 0)
    for powers, coefficient in terms:
        factors = [shop.power(x, n) for x, n in zip(variables, powers, strict=True) if n]
        number = Fraction(int(coefficient.p), int(coefficient.q))
        product = reduce(shop.multiply, factors) if factors else shop.number(1)
        product = shop.multiply(shop.number(float(abs(number))), product)
        total = shop.add(total, product if number > 0 else shop.negative(product))
    return total


def _factored(site: Site, polynomial: Any, variables: list[Expr]) -> tuple[Fraction, Expr | None]:
    """The content of the polynomial, and the product of its factors; None for a constant."""
    content, factors = polynomial.factor()
    shop = site.workshop
    parts = [shop.power(_polynomial(site, p, variables), int(n)) for p, n in factors]
    whole = reduce(shop.multiply, parts) if parts else None
    return Fraction(int(content.p), int(content.q)), whole


@by_hand()
def one_fraction(site: Site) -> Iterator[Expr]:
    """p(x) / q(x) + r(x) / s(x), where terms cancel -> one fraction, in factors"""
    expr, shop = site.expr, site.workshop
    if expr.op not in ("add", "subtract", "divide", "multiply") or expr.kind != "float":
        return
    if not has_at_most(expr, LARGEST):
        return
    made, atoms = _operations_and_atoms(expr)
    variables = [atom for atom in atoms if atom.op != CONSTANT]
    signs = sum(part.op in ("add", "subtract") for part in made)
    if not signs or not 0 < len(variables) <= MOST_ATOMS:
        return
    above, below = _fraction(made, atoms, variables)
    number, top = _factored(site, above, variables)
    divisor, bottom = _factored(site, below, variables)
    number /= divisor
    over = shop.number(float(number.numerator))
    under = shop.number(float(number.denominator))
    over = over if top is None else shop.multiply(over, top)
    under = under if bottom is None else shop.multiply(under, bottom)
    new = shop.divide(over, under)
    known = {id(atom) for atom in atoms}
    if sum(part.op != CONSTANT for part in ordered(new, known=known)) < len(made):
        yield new


RULES: tuple[Rewrite, ...] = (one_fraction,)

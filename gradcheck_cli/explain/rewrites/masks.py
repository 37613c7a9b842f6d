"""Masked branches: a branch that is not selected must not be computed where it is not finite.

Source: JAX FAQ, gradients contain NaN where using where (the double where).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradcheck_cli.domain.program import CONSTANT, INPUT
from gradcheck_cli.explain.algebra.expressions import Expr, ShapeMismatch, ordered
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand, rule

_SAFE = (1, 0)
"""Numbers at which most functions and their derivatives are finite."""


def _leaves(branch: Expr, mask: Expr) -> list[Expr]:
    """Floating-point inputs of a branch that broadcast with the mask elementwise."""
    leaves = []
    for expr in ordered(branch):
        if expr.op == INPUT and expr.kind == "float":
            try:
                fits = np.broadcast_shapes(expr.shape, mask.shape)
            except ValueError:
                return []
            if fits in (expr.shape, mask.shape):
                leaves.append(expr)
    return leaves


def _shielded(
    site: Site, branch: Expr, keep: Expr, chosen: bool, safe: int, but: Expr | None = None
) -> Expr:
    """The branch with every input except `but` replaced by `safe` where the branch is not used."""
    forest, shop = site.workshop.forest, site.workshop
    result = branch
    for leaf in _leaves(branch, keep):
        if leaf is but:
            continue
        other = shop.number(safe)
        pair = (leaf, other) if chosen else (other, leaf)
        shielded = forest.call("where", keep, *pair)
        if shielded.shape != leaf.shape:
            raise ShapeMismatch("the mask makes the input longer")
        result = forest.replaced(result, leaf, shielded)
    return result


@by_hand(broad=True)
def double_where(site: Site) -> Iterator[Expr]:
    """where(c, f(x), g) -> where(c, f(where(c, x, safe)), g)"""
    expr = site.expr
    if expr.op != "where":
        return
    mask, yes, no = expr.args
    for safe in _SAFE:
        for first, second in ((True, False), (False, True), (True, True)):
            a = _shielded(site, yes, mask, True, safe) if first else yes
            b = _shielded(site, no, mask, False, safe) if second else no
            if a is not yes or b is not no:
                yield site.call("where", mask, a, b)


@by_hand(broad=True)
def mask_by_multiplication(site: Site) -> Iterator[Expr]:
    """m * f(x) -> where(m != 0, m * f(where(m != 0, x, safe)), 0)"""
    expr = site.expr
    if expr.op not in ("multiply", "divide"):
        return
    for mask in _factors(expr):
        value = site.value(mask)
        beside = {id(part) for part in ordered(expr, stop=mask)} - {id(mask)}
        # in x / sqrt(x ** 2 + y ** 2), x is not a mask
        own = any(id(part) in beside for part in ordered(mask) if part.op == INPUT)
        if own or value is None or not np.any(value == 0):
            continue
        here = site.call("not_equal", mask, site.workshop.number(0))
        for safe in _SAFE:
            inside = _shielded(site, expr, here, True, safe, but=mask)
            yield site.call("where", here, inside, site.workshop.number(0))


def _factors(expr: Expr) -> Iterator[Expr]:
    """The factors of a product and of a fraction's numerator, except constants."""
    if expr.op == "divide":
        yield from _factors(expr.args[0])
    elif expr.op == "multiply":
        for arg in expr.args:
            yield from _factors(arg)
    elif expr.op != CONSTANT:
        yield expr


@by_hand()
def blend_by_multiplication(site: Site) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """m * a + (1 - m) * b -> where(m == 1, a, b), each branch in a double where"""
    call, number = site.call, site.workshop.number
    for fit in site.fits("m * a + (1 - m) * b"):
        mask, yes, no = (site.workshop.expr(fit.bindings[name]) for name in "mab")
        one, zero = (call("equal", mask, number(value)) for value in (1, 0))
        stated = (call("logical_or", zero, one),)
        for safe in (*_SAFE, None):
            branches = (yes, no)
            if safe is not None:
                branches = (
                    _shielded(site, yes, one, True, safe),
                    _shielded(site, no, one, False, safe),
                )
            yield site.fitted(call("where", one, *branches), fit), stated


RULES: tuple[Rewrite, ...] = (
    double_where,
    mask_by_multiplication,
    blend_by_multiplication,
    rule("m * a + 1 - m", "where(m == 1, a, 1)", "(m == 0) | (m == 1)"),
    rule(
        "y * log(x)",
        "where(y == 0, 0, y * log(where(y == 0, 1, x)))",
        "(x > 0) | (y == 0)",
        kink="0 where y == 0",
        broad=True,
    ),
    rule(
        "y * log(1 - x)",
        "where(y == 0, 0, y * log1p(-where(y == 0, 0, x)))",
        "(x < 1) | (y == 0)",
        kink="0 where y == 0",
        broad=True,
    ),
    rule(
        "x ** y",
        "where(y == 0, 1, x ** where(y == 0, 1, y))",
        "(x > 0) | (y == 0)",
        kink="1 where y == 0",
        broad=True,
    ),
    rule("minimum(exp(x), c)", "exp(minimum(x, log(c)))", "c > 0"),
)

"""The logistic function, softmax, and the losses made of them.

Sources: PyTensor, rewriting/math.py (local_1msigmoid, local_log1p_plusminus_exp,
local_odds_sigmoid, sigm_times_exp); TensorFlow, nn_impl.py (sigmoid_cross_entropy_with_logits).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcheck_cli.explain.algebra.expressions import Expr
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand, rule


def _one_axis(x: Expr, axis: Any) -> int | None:
    """The axis of a reduction over a single axis, counted from the last; None for several."""
    axes = axis if isinstance(axis, tuple) else range(len(x.shape)) if axis is None else (axis,)
    return axes[0] - len(x.shape) * (axes[0] >= 0) if len(axes) == 1 else None


@by_hand()
def softmax_by_hand(site: Site) -> Iterator[Expr]:
    """exp(x) / sum(exp(x), axis) -> softmax(x, axis)"""
    for fit in site.fits("exp(x) / sum(exp(x), axis=A, keepdims=B)"):
        x = site.workshop.expr(fit.bindings["x"])
        axis = _one_axis(x, fit.bindings["A"])
        if axis is not None and (fit.bindings["B"] or len(x.shape) == 1):
            yield site.fitted(site.call("softmax", x, axis=axis), fit)


@by_hand()
def weighted_softmax_by_hand(site: Site) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """a * exp(x) / sum(a * exp(x), axis) -> softmax(x + log(a), axis), -inf where a = 0"""
    call, shop = site.call, site.workshop
    for fit in site.fits("a * exp(x) / sum(a * exp(x), axis=A, keepdims=B)"):
        a, x = (shop.expr(fit.bindings[name]) for name in "ax")
        zero = shop.number(0)
        counts, stated = call("greater", a, zero), call("greater_equal", a, zero)
        value = site.value(a)
        if value is None or np.all(value > 0):
            exponent, stated = shop.add(x, call("log", a)), counts
        else:
            logs = shop.add(x, call("log", call("where", counts, a, shop.number(1))))
            exponent = call("where", counts, logs, shop.number(-math.inf))
        axis = _one_axis(exponent, fit.bindings["A"])
        if axis is not None and (fit.bindings["B"] or len(exponent.shape) == 1):
            softmax = call("softmax", exponent, axis=axis)
            yield site.fitted(softmax, fit), (stated,)


@by_hand()
def tempered_softmax(site: Site) -> Iterator[Expr]:
    """softmax(x / y, axis) -> softmax((x - m) / y, axis), m = stop_gradient(max(x, axis))"""
    call, shop = site.call, site.workshop
    for text, scale in (
        ("softmax(n * x, axis=A)", shop.multiply),
        ("softmax(y * x, axis=A)", shop.multiply),
        ("softmax(x / y, axis=A)", shop.divide),
    ):
        for fit in site.fits(text):
            axis = fit.bindings["A"]
            y = shop.expr(fit.bindings["n" if "n" in fit.bindings else "y"])
            x = shop.expr(fit.bindings["x"])
            if x.shape != () and y.shape == ():
                m = call("stop_gradient", call("max", x, axis=axis, keepdims=True))
                exponent = scale(shop.subtract(x, m), y)
                yield site.fitted(call("softmax", exponent, axis=axis), fit)


def _without_entry(site: Site, x: Expr, index: tuple[Any, ...]) -> Expr | None:
    """x without the entry at `index`; None unless that is one entry of a vector."""
    if len(x.shape) != 1 or len(index) != 1 or not isinstance(index[0], int):
        return None
    i, count = index[0] % x.shape[0], x.shape[0]
    parts = [slice(None, i, None)] * (i > 0) + [slice(i + 1, None, None)] * (i + 1 < count)
    pieces = [site.call("getitem", x, index=(part,)) for part in parts]
    if not pieces:
        return None
    return pieces[0] if len(pieces) == 1 else site.call("concatenate", *pieces, axis=0)


@by_hand()
def all_but_one_of_softmax(site: Site) -> Iterator[Expr]:
    """log(1 - softmax(x)[i]) -> logsumexp(the others) - logsumexp(x)"""
    for fit in site.fits("log(1 - softmax(x, axis=A)[I])"):
        x = site.workshop.expr(fit.bindings["x"])
        others = _without_entry(site, x, fit.bindings["I"])
        if others is not None:
            logs = [site.call("logsumexp", one) for one in (others, x)]
            yield site.fitted(site.workshop.subtract(*logs), fit)


@by_hand()
def one_of_log_softmax(site: Site) -> Iterator[Expr]:
    """log_softmax(x)[i] -> -softplus(logsumexp(the others) - x[i])"""
    for fit in site.fits("log_softmax(x, axis=A)[I]"):
        x, index = site.workshop.expr(fit.bindings["x"]), fit.bindings["I"]
        others = _without_entry(site, x, index)
        if others is None:
            continue
        mine = site.call("getitem", x, index=index)
        if others.shape == (1,):
            others = site.call("getitem", others, index=(0,))
        else:
            others = site.call("logsumexp", others)
        shop = site.workshop
        yield site.fitted(shop.negative(site.call("softplus", shop.subtract(others, mine))), fit)


@by_hand()
def mean_of_softmax(site: Site) -> Iterator[Expr]:
    """sum(a * exp(x), axis) / sum(exp(x), axis) -> sum(a * softmax(x, axis), axis)"""
    for fit in site.fits("sum(a * exp(x), axis=A, keepdims=B) / sum(exp(x), axis=A, keepdims=B)"):
        x, a = (site.workshop.expr(fit.bindings[name]) for name in "xa")
        axis = _one_axis(x, fit.bindings["A"])
        if axis is not None:
            softmax = site.call("softmax", x, axis=axis)
            weighted = site.workshop.multiply(a, softmax)
            keywords = {"axis": fit.bindings["A"], "keepdims": fit.bindings["B"]}
            yield site.fitted(site.call("sum", weighted, **keywords), fit)


@by_hand()
def log_of_mean(site: Site) -> Iterator[Expr]:
    """log(mean(exp(x), axis)) -> logsumexp(x, axis) - log(n)"""
    for fit in site.fits("log(mean(exp(x), axis=A, keepdims=B))"):
        x, axis = site.workshop.expr(fit.bindings["x"]), fit.bindings["A"]
        total = site.call("logsumexp", x, axis=axis, keepdims=fit.bindings["B"])
        count = math.prod(x.shape) // max(math.prod(total.shape), 1)
        shop = site.workshop
        yield site.fitted(shop.subtract(total, shop.number(math.log(count))), fit)


RULES: tuple[Rewrite, ...] = (
    rule("1 / (1 + exp(x))", "sigmoid(-x)"),
    rule("exp(x) / (1 + exp(x))", "sigmoid(x)"),
    rule("exp(a) / (exp(a) + exp(b))", "sigmoid(a - b)"),
    rule("exp(x) / (exp(x) + y)", "sigmoid(x - log(y))", "y > 0"),
    rule("x ** y / (x ** y + z ** y)", "1 / (1 + (z / x) ** y)", "x > 0", "z > 0"),
    rule("1 - sigmoid(x)", "sigmoid(-x)"),
    rule("log(sigmoid(x))", "-softplus(-x)"),
    rule("log(sigmoid(x))", "log_sigmoid(x)"),
    rule("log(1 - sigmoid(x))", "-softplus(x)"),
    rule("log1p(-sigmoid(x))", "-softplus(x)"),
    rule("exp(x) * sigmoid(-x)", "sigmoid(x)"),
    rule("sigmoid(x) / (1 - sigmoid(x))", "exp(x)"),
    rule("log(sigmoid(x) / (1 - sigmoid(x)))", "x"),
    rule("sigmoid(x) / sigmoid(-x)", "exp(x)"),
    rule("logit(sigmoid(x))", "x"),
    rule("bce(sigmoid(z), y, **K)", "bce_with_logits(z, y, **K)"),
    rule("bce(sigmoid(z), y, reduction='mean')", "mean(y * softplus(-z) + (1 - y) * softplus(z))"),
    rule("bce(sigmoid(z), y, reduction='sum')", "sum(y * softplus(-z) + (1 - y) * softplus(z))"),
    rule(
        "y * log(sigmoid(z)) + (1 - y) * log(1 - sigmoid(z))",
        "-y * softplus(-z) - (1 - y) * softplus(z)",
    ),
    rule("y * log(sigmoid(z)) + (1 - y) * log(1 - sigmoid(z))", "y * z - softplus(z)"),
    rule(
        "y * sigmoid(z) + (1 - y) * (1 - sigmoid(z))",
        "sigmoid((2 * y - 1) * z)",
        "(y == 0) | (y == 1)",
    ),
    rule("sigmoid(a) - sigmoid(b)", "-sigmoid(a) * sigmoid(-b) * expm1(b - a)"),
    rule("log(sigmoid(a) - sigmoid(b))", "log1mexp(a - b) - softplus(-a) - softplus(b)", "a > b"),
    rule("(1 - sigmoid(x)) ** n", "exp(-n * softplus(x))"),
    rule("(1 - sigmoid(x)) ** y", "exp(-y * softplus(x))"),
    softmax_by_hand,
    weighted_softmax_by_hand,
    tempered_softmax,
    all_but_one_of_softmax,
    one_of_log_softmax,
    rule("log(softmax(x, **K))", "log_softmax(x, **K)"),
    rule("log(softmax(x, **K)[I])", "log_softmax(x, **K)[I]"),
    rule("exp(x) / (1 + exp(x)) ** 2", "sigmoid(x) * sigmoid(-x)"),
    rule("2 * sigmoid(x) - 1", "tanh(x / 2)"),
    rule("softplus(x) - x", "softplus(-x)"),
    rule("softplus(x) - softplus(-x)", "x"),
    rule("log_sigmoid(x) - log_sigmoid(-x)", "x"),
    rule("logaddexp(a, b) - a", "softplus(b - a)"),
    mean_of_softmax,
    log_of_mean,
)

"""Exponentials and logarithms.

Sources: PyTensor, rewriting/math.py (local_log1p, local_logsumexp, local_log_div, log1mexp);
Herbie, core/rules.rkt; Maechler, Accurately computing log(1 - exp(-|a|)), 2012.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradcheck_cli.explain.algebra.expressions import Expr
from gradcheck_cli.explain.rewrites.rule import Rewrite, Site, by_hand, rule


@by_hand()
def log_of_exponentials(site: Site) -> Iterator[Expr]:
    """log(exp(a) + exp(b) + exp(e)) -> logaddexp(logaddexp(a, b), e), and so on for more"""
    shop = site.workshop
    norm = shop.norm(site.expr)
    if norm.kind != "call" or norm.op != "log" or norm.args[0].kind != "sum":
        return
    total = norm.args[0]
    if len(total.parts) + (total.value != 0) < 3 or total.value < 0:
        return
    if any(term.kind != "call" or term.op != "exp" or c <= 0 for term, c in total.parts):
        return
    logs = [shop.add(shop.expr(e.args[0]), shop.number(math.log(c))) for e, c in total.parts]
    if total.value > 0:
        logs.append(shop.number(math.log(total.value)))
    whole = logs[0]
    for one in logs[1:]:
        whole = site.call("logaddexp", whole, one)
    yield whole


_LOGS = {
    "log(sum(exp({}), axis=A, keepdims=B))": "sum",
    "log(mean(exp({}), axis=A, keepdims=B))": "mean",
    "logsumexp({}, axis=A, keepdims=B)": "logsumexp",
}
_TEMPERED = {
    **{f"{text.format('y * x')} / y": (op, False) for text, op in _LOGS.items()},
    **{f"y * {text.format('x / y')}": (op, True) for text, op in _LOGS.items()},
}


@by_hand()
def tempered_maximum(site: Site) -> Iterator[Expr]:
    """log(sum(exp(y * x))) / y -> m + log(sum(exp(y * (x - m)))) / y, m = stop_gradient(max(x))"""
    shop, call = site.workshop, site.call
    for text, (op, hot) in _TEMPERED.items():
        for fit in site.fits(text):
            x, y = (shop.expr(fit.bindings[name]) for name in "xy")
            axis, keep = fit.bindings["A"], fit.bindings["B"]
            if x.shape == () or y.shape != ():
                continue
            inner = call("stop_gradient", call("max", x, axis=axis, keepdims=True))
            outer = call("stop_gradient", call("max", x, axis=axis, keepdims=keep))
            scale = shop.divide if hot else shop.multiply
            exponent = scale(shop.subtract(x, inner), y)
            if op == "logsumexp":
                log = call(op, exponent, axis=axis, keepdims=keep)
            else:
                log = call("log", call(op, call("exp", exponent), axis=axis, keepdims=keep))
            back = shop.multiply(y, log) if hot else shop.divide(log, y)
            yield site.fitted(shop.add(outer, back), fit)


RULES: tuple[Rewrite, ...] = (
    rule("1 / exp(x)", "exp(-x)"),
    rule("exp(a) * exp(b)", "exp(a + b)"),
    rule("exp(a) / exp(b)", "exp(a - b)"),
    rule("exp(x) ** n", "exp(n * x)"),
    rule("log(exp(x))", "x"),
    rule("log(a * exp(x))", "x + log(a)", "a > 0"),
    rule("log(c * exp(x))", "x + log(c)", "c > 0"),
    rule("log(c * exp(a) + d * exp(b))", "logaddexp(a + log(c), b + log(d))", "c > 0", "d > 0"),
    rule("log(c * x)", "log(x) + log(c)", "c > 0", "x > 0"),
    rule("log(a + b * exp(x))", "logaddexp(log(a), x + log(b))", "a > 0", "b > 0"),
    rule("log(a + c * exp(x))", "logaddexp(log(a), x + log(c))", "a > 0", "c > 0"),
    log_of_exponentials,
    tempered_maximum,
    rule("log(1 + x)", "log1p(x)", "x > -1"),
    rule("exp(x) - 1", "expm1(x)"),
    rule("log(1 + exp(x))", "softplus(x)"),
    rule("log(1 + b * exp(x))", "softplus(x + log(b))", "b > 0"),
    rule("log1p(exp(x))", "softplus(x)"),
    rule("log(1 - exp(x))", "log1mexp(-x)", "x < 0"),
    rule("log1p(-exp(x))", "log1mexp(-x)", "x < 0"),
    rule("log(-expm1(x))", "log1mexp(-x)", "x < 0"),
    rule("log(1 - exp(x))", "log(-expm1(x))", "x < 0"),
    rule("log(exp(a) - exp(b))", "a + log1mexp(a - b)", "a > b"),
    rule("log(exp(x) - 1)", "x + log1mexp(x)", "x > 0"),
    rule("log(expm1(x))", "x + log1mexp(x)", "x > 0"),
    rule("exp(a) - exp(b)", "exp(b) * expm1(a - b)"),
    rule("exp(a * x) - exp(b * x)", "exp(b * x) * expm1((a - b) * x)"),
    rule("log(exp(a) + exp(b))", "logaddexp(a, b)"),
    rule("log(p * exp(a) + q * exp(b))", "logaddexp(a + log(p), b + log(q))", "p > 0", "q > 0"),
    rule("maximum(a, b) + log1p(exp(-abs(a - b)))", "logaddexp(a, b)"),
    rule("log(sum(exp(x), **K))", "logsumexp(x, **K)"),
    rule("log(a / b)", "log(a) - log(b)", "a > 0", "b > 0"),
    rule("log(1 / x)", "-log(x)", "x > 0"),
    rule("log(a * b)", "log(a) + log(b)", "a > 0", "b > 0"),
    rule("log(prod(x, **K))", "sum(log(x), **K)", "x > 0"),
    rule("log(x ** n)", "n * log(x)", "x > 0"),
    rule("log(x ** 2)", "2 * log(abs(x))", "x != 0"),
    rule("log(x ** y)", "y * log(x)", "x > 0"),
    rule("log10(x ** n)", "n * log10(x)", "x > 0"),
    rule("log10(x ** 2)", "2 * log10(abs(x))", "x != 0"),
    rule("log2(x ** n)", "n * log2(x)", "x > 0"),
    rule("log2(x ** 2)", "2 * log2(abs(x))", "x != 0"),
    rule("log(1 + x ** 2)", "2 * log(hypot(1, x))"),
    rule("log(1 + x ** 2 / y)", "2 * log(hypot(1, x / sqrt(y)))", "y > 0"),
    rule("log(a ** 2 + b ** 2)", "2 * log(hypot(a, b))", "(a != 0) | (b != 0)"),
    rule("(1 + x) ** n", "exp(n * log1p(x))", "x > -1"),
    rule("(1 + x) ** y", "exp(y * log1p(x))", "x > -1"),
    rule("x ** y - 1", "expm1(y * log(x))", "x > 0"),
    rule("exp(sum(log(x), **K))", "prod(x, **K)", "x >= 0"),
    rule("c * exp(x)", "exp(x + log(c))", "c > 0"),
    rule("a * exp(x)", "exp(x + log(a))", "a > 0", broad=True),
    rule("exp(x) / a", "exp(x - log(a))", "a > 0", broad=True),
    rule("log(sum(a * exp(x), **K))", "logsumexp(x + log(a), **K)", "a > 0"),
    rule("x ** n - 1", "expm1(n * log(x))", "x > 0"),
    rule("(1 + x) ** n - 1", "expm1(n * log1p(x))", "x > -1"),
    rule("(1 + x) ** y - 1", "expm1(y * log1p(x))", "x > -1"),
    rule("exp2(x) - 1", "expm1(0.6931471805599453 * x)"),
    rule("log2(1 + x)", "log1p(x) / 0.6931471805599453", "x > -1"),
    rule("log10(1 + x)", "log1p(x) / 2.302585092994046", "x > -1"),
    rule("log(x / (1 + x))", "-log1p(1 / x)", "x > 0"),
    rule("log(x) - log1p(x)", "-log1p(1 / x)", "x > 0"),
    rule("exp(x) / (exp(x) - 1)", "-1 / expm1(-x)", "x != 0"),
    rule("exp(x) / expm1(x)", "-1 / expm1(-x)", "x != 0"),
    rule("prod(x, **K) / prod(y, **K)", "prod(x / y, **K)", "y != 0"),
    rule("prod(x, **K) ** n", "exp(n * sum(log(x), **K))", "x > 0"),
    rule("x ** y * exp(a)", "exp(y * log(x) + a)", "x > 0"),
    rule("x ** y / exp(a)", "exp(y * log(x) - a)", "x > 0"),
    rule("x ** y / x ** z", "x ** (y - z)", "x > 0"),
    rule("x ** y / z ** y", "(x / z) ** y", "x > 0", "z > 0"),
)

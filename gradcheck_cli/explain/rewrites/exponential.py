"""Exponentials and logarithms.

Sources: PyTensor, rewriting/math.py (local_log1p, local_logsumexp, local_log_div, log1mexp);
Herbie, core/rules.rkt; Maechler, Accurately computing log(1 - exp(-|a|)), 2012.
"""

from __future__ import annotations

from gradcheck_cli.explain.rewrites.rule import Rewrite, rule

RULES: tuple[Rewrite, ...] = (
    rule("1 / exp(x)", "exp(-x)"),
    rule("exp(a) * exp(b)", "exp(a + b)"),
    rule("exp(a) / exp(b)", "exp(a - b)"),
    rule("exp(x) ** n", "exp(n * x)"),
    rule("log(exp(x))", "x"),
    rule("log(a * exp(x))", "x + log(a)", "a > 0"),
    rule("log(c * exp(x))", "x + log(c)", "c > 0"),
    rule(
        "log(c * exp(a) + d * exp(b))",
        "logaddexp(a + log(c), b + log(d))",
        "c > 0",
        "d > 0",
    ),
    rule("exp(log(x))", "x", "x > 0"),
    rule("log(1 + x)", "log1p(x)", "x > -1"),
    rule("exp(x) - 1", "expm1(x)"),
    rule("log(1 + exp(x))", "softplus(x)"),
    rule("log1p(exp(x))", "softplus(x)"),
    rule("log(1 - exp(x))", "log1mexp(-x)", "x < 0"),
    rule("log1p(-exp(x))", "log1mexp(-x)", "x < 0"),
    rule("log(-expm1(x))", "log1mexp(-x)", "x < 0"),
    rule("log(1 - exp(x))", "log(-expm1(x))", "x < 0"),
    rule("log(exp(a) - exp(b))", "a + log1mexp(a - b)", "a > b"),
    rule("log(exp(x) - 1)", "x + log1mexp(x)", "x > 0"),
    rule("log(expm1(x))", "x + log1mexp(x)", "x > 0"),
    rule("exp(a) - exp(b)", "exp(b) * expm1(a - b)"),
    rule("log(exp(a) + exp(b))", "logaddexp(a, b)"),
    rule(
        "log(p * exp(a) + q * exp(b))",
        "logaddexp(a + log(p), b + log(q))",
        "p > 0",
        "q > 0",
    ),
    rule("maximum(a, b) + log1p(exp(-abs(a - b)))", "logaddexp(a, b)"),
    rule("log(sum(exp(x), **K))", "logsumexp(x, **K)"),
    rule("logsumexp(x, **K) + c", "logsumexp(x + c, **K)"),
    rule("log(a / b)", "log(a) - log(b)", "a > 0", "b > 0"),
    rule("log(1 / x)", "-log(x)", "x > 0"),
    rule("log(a * b)", "log(a) + log(b)", "a > 0", "b > 0"),
    rule("log(prod(x, **K))", "sum(log(x), **K)", "x > 0"),
    rule("log(x ** n)", "n * log(x)", "x > 0"),
    rule("log(x ** 2)", "2 * log(abs(x))", "x != 0"),
    rule("log(x ** y)", "y * log(x)", "x > 0"),
    rule("log(sqrt(x))", "log(x) / 2", "x > 0"),
    rule("log(1 + x ** 2)", "2 * log(hypot(1, x))"),
    rule("log(a ** 2 + b ** 2)", "2 * log(hypot(a, b))", "(a != 0) | (b != 0)"),
    rule("exp(y * log(x))", "x ** y", "x > 0"),
    rule("(1 + x) ** n", "exp(n * log1p(x))", "x > -1"),
    rule("(1 + x) ** y", "exp(y * log1p(x))", "x > -1"),
    rule("x ** y - 1", "expm1(y * log(x))", "x > 0"),
    rule("exp(sum(log(x), **K))", "prod(x, **K)", "x >= 0"),
    rule("c * exp(x)", "exp(x + log(c))", "c > 0"),
    rule("a * exp(x)", "exp(x + log(a))", "a > 0", last=True),
    rule("exp(x) / a", "exp(x - log(a))", "a > 0", last=True),
)

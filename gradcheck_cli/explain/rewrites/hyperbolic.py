"""Hyperbolic functions and their inverses.

Sources: Herbie, core/rules.rkt (sinh-def, tanh-def, asinh-def); Kahan, Branch cuts for complex
elementary functions, 1987.
"""

from __future__ import annotations

from gradcheck_cli.explain.rewrites.rule import Rewrite, rule

_LOG_2 = "0.6931471805599453"

RULES: tuple[Rewrite, ...] = (
    rule("exp(x) - exp(-x)", "2 * sinh(x)"),
    rule("exp(x) + exp(-x)", "2 * cosh(x)"),
    rule("(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "tanh(x)"),
    rule("(exp(x) - 1) / (exp(x) + 1)", "tanh(x / 2)"),
    rule("(exp(x) - 1) / (exp(x) + 1)", "-expm1(-x) / (1 + exp(-x))", "x > 0"),
    rule("(1 - exp(x)) / (1 + exp(x))", "-tanh(x / 2)"),
    rule("expm1(x) / (exp(x) + 1)", "tanh(x / 2)"),
    rule("1 / (exp(x) + exp(-x))", "exp(-abs(x)) / (1 + exp(-2 * abs(x)))"),
    rule("1 / (exp(x) + exp(-x) + 2)", "sigmoid(x) * sigmoid(-x)"),
    rule("1 / cosh(x)", "2 * exp(-abs(x)) / (1 + exp(-2 * abs(x)))"),
    rule("log(cosh(x))", f"abs(x) + softplus(-2 * abs(x)) - {_LOG_2}"),
    rule("log(sinh(x))", f"x + log1mexp(2 * x) - {_LOG_2}", "x > 0"),
    rule("log(x + sqrt(x ** 2 + 1))", "asinh(x)"),
    rule("log(x + sqrt(x ** 2 - 1))", "acosh(x)", "x > 1"),
    rule("log(x + sqrt(x ** 2 - 1))", "log(x) + log1p(sqrt(1 - 1 / x) * sqrt(1 + 1 / x))", "x > 1"),
    rule("log((1 + x) / (1 - x)) / 2", "atanh(x)", "abs(x) < 1"),
    rule("log((1 + x) / (1 - x))", "2 * atanh(x)", "abs(x) < 1"),
    rule("log(1 + x) - log(1 - x)", "2 * atanh(x)", "abs(x) < 1"),
    rule("atanh(tanh(x))", "x"),
    rule("log(tanh(x))", "log1mexp(2 * x) - softplus(-2 * x)", "x > 0"),
    rule("log(1 - tanh(x) ** 2)", f"2 * ({_LOG_2} - x - softplus(-2 * x))"),
    rule("1 - tanh(x) ** 2", "4 * sigmoid(2 * x) * sigmoid(-2 * x)"),
    rule("1 - tanh(x)", "2 * sigmoid(-2 * x)"),
    rule("1 / (exp(x) - 1)", "-exp(-x) / expm1(-x)", "x > 0"),
    rule("1 / expm1(x)", "-exp(-x) / expm1(-x)", "x > 0"),
    rule("exp(x) - 2 + exp(-x)", "4 * sinh(x / 2) ** 2"),
    rule("1 + tanh(x)", "2 * sigmoid(2 * x)"),
    rule("cosh(x) - 1", "2 * sinh(x / 2) ** 2"),
    rule("cosh(x) - cosh(y)", "2 * sinh((x + y) / 2) * sinh((x - y) / 2)"),
    rule("sinh(x) - sinh(y)", "2 * cosh((x + y) / 2) * sinh((x - y) / 2)"),
    rule("tanh(x) - tanh(y)", "sinh(x - y) / (cosh(x) * cosh(y))"),
    rule("cosh(x) - sinh(x)", "exp(-x)"),
    rule("sinh(x) / cosh(x)", "tanh(x)"),
    rule("log(c * cosh(x))", "abs(x) + softplus(-2 * abs(x)) + log(c / 2)", "c > 0"),
    rule("acosh(cosh(x))", "abs(x)"),
    rule("acosh(1 + x)", "log1p(x + sqrt(x * (2 + x)))", "x > 0"),
)

"""The error function, the normal distribution, Bessel and gamma functions.

Sources: PyTensor, rewriting/math.py (local_erf_minus_one, local_log_erfc); DLMF 5.11.2, 5.11.3, 7.2
and 10.40.1.
"""

from __future__ import annotations

from gradcheck_cli.explain.rewrites.rule import Rewrite, rule

_HALF_ROOT = "0.7071067811865476"  # 1 / sqrt(2)

RULES: tuple[Rewrite, ...] = (
    rule("1 - erf(x)", "erfc(x)"),
    rule("1 + erf(x)", "erfc(-x)"),
    rule("1 - erfc(x)", "erf(x)"),
    rule("erf(a) - erf(b)", "erfc(b) - erfc(a)"),
    rule("erfc(a) - erfc(b)", "erfc(-b) - erfc(-a)"),
    rule(f"1 + erf({_HALF_ROOT} * x)", "2 * ndtr(x)"),
    rule("log(ndtr(x))", "log_ndtr(x)"),
    rule(f"log(erfc({_HALF_ROOT} * x))", "log_ndtr(-x) + 0.6931471805599453"),
    rule("log(erfc(x))", "log_ndtr(-1.4142135623730951 * x) + 0.6931471805599453"),
    rule("ndtr(x)", f"erfc(-{_HALF_ROOT} * x) / 2"),
    rule("ndtr(b) - ndtr(a)", f"(erfc({_HALF_ROOT} * a) - erfc({_HALF_ROOT} * b)) / 2"),
    rule("log(ndtr(b) - ndtr(a))", "log_ndtr(-a) + log1mexp(log_ndtr(-a) - log_ndtr(-b))", "b > a"),
    rule("exp(-x ** 2) / erfc(x)", "1 / erfcx(x)"),
    rule("exp(x ** 2) * erfc(x)", "erfcx(x)"),
    rule("log(i0(x))", "log(i0e(x)) + abs(x)"),
    rule("i1(x) / i0(x)", "i1e(x) / i0e(x)"),
    rule(
        "i1(x) / i0(x)",
        "1 - (1 + (1 + (1 + (1.5625 + (3.25 + 8.3828125 / x) / x) / x) / x) / (4 * x)) / (2 * x)",
        "x > 80",
    ),
    rule("digamma(x) - log(x)", "-(1 + (1 - 1 / (10 * x ** 2)) / (6 * x)) / (2 * x)", "x > 20"),
    rule("exp(-abs(x)) * i0(x)", "i0e(x)"),
    rule(
        "lgamma(x + y) - lgamma(x)",
        "y * log(x) + y * (y - 1) / (2 * x) * (1 - (2 * y - 1) / (6 * x))",
        "x > 1e5 * (1 + abs(y))",
    ),
    rule("1 - ndtr(x)", "ndtr(-x)"),
    # TensorFlow's own rounds its constants to float32
    rule("gelu(x)", f"x * erfc(-{_HALF_ROOT} * x) / 2"),
    rule("lgamma(x + 1) - lgamma(x)", "log(x)", "x > 0"),
    rule("digamma(x + 1) - digamma(x)", "1 / x", "x > 0"),
    rule("log(i1(x))", "log(i1e(x)) + x", "x > 0"),
    rule("exp(-x) * i0(x)", "i0e(x)", "x >= 0"),
    rule("exp(-x) * i1(x)", "i1e(x)", "x >= 0"),
)

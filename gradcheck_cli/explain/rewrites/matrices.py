"""Determinants.

Source: PyTensor, rewriting/linalg.py (local_log_prod_sqr, slogdet_specialization).
"""

from __future__ import annotations

from gradcheck_cli.explain.rewrites.rule import Rewrite, rule

RULES: tuple[Rewrite, ...] = (
    rule("log(det(x))", "logdet(x)", "det(x) > 0"),
    rule("log(abs(det(x)))", "slogdet_logabs(x)"),
    rule("sqrt(det(x))", "exp(logdet(x) / 2)", "det(x) > 0"),
    rule(
        "det(a) / det(b)",
        "slogdet_sign(a) * slogdet_sign(b) * exp(slogdet_logabs(a) - slogdet_logabs(b))",
        "det(b) != 0",
    ),
)

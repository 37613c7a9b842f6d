"""Linear algebra.

Sources: PyTensor, rewriting/linalg.py; Higham, Accuracy and stability of numerical algorithms,
ch. 14 (do not invert).
"""

from __future__ import annotations

from gradcheck_cli.explain.rewrites.rule import Rewrite, rule

RULES: tuple[Rewrite, ...] = (
    rule("log(det(x))", "logdet(x)", "det(x) > 0"),
    rule("log(abs(det(x)))", "slogdet_logabs(x)"),
    rule("inv(a) @ b", "solve(a, b)"),
    rule("det(inv(x))", "1 / det(x)"),
    rule("2 * sum(log(diag(cholesky(x))))", "logdet(x)"),
    rule("sum(log(eigvalsh(x)))", "logdet(x)"),
    rule("prod(eigvalsh(x))", "det((x + transpose(x)) / 2)"),
    rule("sum(eigvalsh(x))", "trace(x)"),
    rule("sum(svdvals(x) ** 2)", "sum(x ** 2)"),
)

"""The catalogue of stable forms: `from -> to`, each with the condition under which both are equal.

A rule only proposes. A proposal counts after it was tried: value and gradient are compared with the
truth, at the failing point and around it. No rule adds an epsilon or clips: this changes the
function, and often makes its gradient silently zero.
"""

from __future__ import annotations

from gradcheck_cli.explain.rewrites import (
    cancellation,
    exponential,
    hyperbolic,
    logistic,
    masks,
    matrices,
    norms,
    rational,
    scaling,
    series,
    special,
    taylor,
)
from gradcheck_cli.explain.rewrites.rule import Rewrite

CATALOGUE: tuple[Rewrite, ...] = (
    *exponential.RULES,
    *logistic.RULES,
    *hyperbolic.RULES,
    *special.RULES,
    *norms.RULES,
    *cancellation.RULES,
    *rational.RULES,
    *series.RULES,
    *taylor.RULES,
    *masks.RULES,
    *scaling.RULES,
    *matrices.RULES,
)

__all__ = ["CATALOGUE"]

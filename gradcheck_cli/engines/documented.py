"""Approximations of rows of the op table that frameworks document, in their own words and as
formulas.

Each formula is the function that the framework differentiates: its gradients, to every order that
is given, are those of the framework. Frozen parts (`stop_gradient`) have the derivative that stands
beside them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.domain.engines import FRAMEWORK_OF
from gradcheck_cli.domain.records import dataclass


@dataclass(frozen=True, slots=True)
class Approximation:
    """`formula` is a formula of the arrays of the row. A keyword `reduction` of the row applies to
    it."""

    formula: str
    says: str
    source: str


_SOFTPLUS = Approximation(
    "where(x > 20, x, softplus(x))",
    "for numerical stability the implementation reverts to the linear function when input x beta > "
    "threshold (20)",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softplus.html",
)

# The smallest denominator is 1e-12 as a float32 in every dtype (aten/src/ATen/native/Loss.cpp).
# No logarithm of 0 is taken, so that the derivative can be enclosed there.
_BCE = Approximation(
    """least = exp(-100.0)
value = -(y * log(maximum(p, least)) + (1 - y) * log(maximum(1 - p, least)))
slope = (p - y) / maximum((1 - p) * p, 9.999999960041972e-13)
by_y = log(maximum(1 - p, least)) - log(maximum(p, least))
at_p, at_y = stop_gradient(p), stop_gradient(y)
stop_gradient(value) + stop_gradient(slope) * (p - at_p) + stop_gradient(by_y) * (y - at_y)""",
    "BCELoss clamps its log function outputs to be greater than or equal to -100, so that there is "
    "always a finite loss value and a linear backward method (its denominator is at least 1e-12)",
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html",
)


def _gelu(says: str, source: str) -> Approximation:
    return Approximation("gelu(x, approximate=True)", says, source)


_JAX = {
    "gelu": _gelu(
        "if approximate=True, the default, it uses the approximate formulation of gelu by tanh",
        "https://docs.jax.dev/en/latest/_autosummary/jax.nn.gelu.html",
    ),
}

_TORCH: Mapping[str, Approximation] = {
    "softplus": _SOFTPLUS,
    "bce": _BCE,
    "gelu": _gelu(
        "when the approximate argument is 'tanh', gelu is estimated with tanh",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html",
    ),
}
_TENSORFLOW: Mapping[str, Approximation] = {
    "gelu": _gelu(
        "if approximate is True, gelu is 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
        "https://www.tensorflow.org/api_docs/python/tf/nn/gelu",
    ),
}

DOCUMENTED: Mapping[str, Mapping[str, Approximation]] = {
    name: {"torch": _TORCH, "tensorflow": _TENSORFLOW, "jax": _JAX}[framework]
    for name, framework in FRAMEWORK_OF.items()
}
"""By engine and row."""

"""Whether a JAX function draws random numbers: keys are arguments like any other, so nothing but
the operations tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DRAWING = {"random_bits", "random_gamma", "threefry2x32", "rng_bit_generator", "rng_uniform"}


def draws(jaxpr: Any) -> bool:
    """Whether an operation of the jaxpr, or of one inside it, draws."""
    return any(
        equation.primitive.name in DRAWING or any(draws(inner) for inner in _inside(equation))
        for equation in jaxpr.eqns
    )


def _inside(equation: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            open_ = getattr(part, "jaxpr", part)  # a closed one has its constants beside it
            if hasattr(open_, "eqns"):
                yield open_

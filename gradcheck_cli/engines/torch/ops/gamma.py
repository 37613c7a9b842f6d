"""The logarithm of the gamma function, its derivatives, and that of the beta function."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Limited, Lowering


def betaln(torch: Any, a: Any, b: Any) -> Any:
    """As torch.distributions.Beta has it."""
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def polygamma(torch: Any, x: Any, n: int) -> Any:
    return torch.special.polygamma(n, x)


# aten/src/ATen/native/Math.h, trigamma: six steps of the recurrence, then a series up to x^-7
NINE_DIGITS = "its trigamma, a derivative here, is right to nine digits only"

ROWS: dict[str, Lowering] = {
    "betaln": Limited(betaln, NINE_DIGITS, constants="float32"),
    "digamma": Limited("digamma", NINE_DIGITS, constants="float32"),
    "lgamma": Limited("lgamma", NINE_DIGITS, constants="float32"),
    "polygamma": Limited(polygamma, NINE_DIGITS, constants="float32"),
}

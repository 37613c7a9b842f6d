"""The logarithm of the gamma function, its derivatives, and that of the beta function."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.lowerings import Lowering


def betaln(torch: Any, a: Any, b: Any) -> Any:
    """As torch.distributions.Beta has it."""
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def polygamma(torch: Any, x: Any, n: int) -> Any:
    return torch.special.polygamma(n, x)


ROWS: dict[str, Lowering] = {
    "betaln": betaln,
    "digamma": "digamma",
    "lgamma": "lgamma",
    "polygamma": polygamma,
}

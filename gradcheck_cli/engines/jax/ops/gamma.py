"""The logarithm of the gamma function, its derivatives, and that of the beta function."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def polygamma(jax: Any, x: Any, n: int) -> Any:
    return jax.scipy.special.polygamma(n, x)


ROWS: dict[str, Lowering] = {
    "betaln": "scipy.special.betaln",
    "digamma": "scipy.special.digamma",
    "lgamma": "scipy.special.gammaln",
    "polygamma": polygamma,
}

"""Determinants."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def logdet(jax: Any, x: Any) -> Any:
    sign, size = jax.numpy.linalg.slogdet(x)
    return jax.numpy.where(sign < 0, jax.numpy.nan, size)


def slogdet_logabs(jax: Any, x: Any) -> Any:
    return jax.numpy.linalg.slogdet(x).logabsdet


def slogdet_sign(jax: Any, x: Any) -> Any:
    return jax.numpy.linalg.slogdet(x).sign


ROWS: dict[str, Lowering] = {
    "det": "numpy.linalg.det",
    "logdet": logdet,
    "slogdet_logabs": slogdet_logabs,
    "slogdet_sign": slogdet_sign,
}

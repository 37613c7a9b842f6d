"""Sums, products and extremes of everything up to an element."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def cumsum(jax: Any, x: Any, axis: int | None = None) -> Any:
    return jax.numpy.cumsum(x, axis=axis or 0)


def cumprod(jax: Any, x: Any, axis: int | None = None) -> Any:
    return jax.numpy.cumprod(x, axis=axis or 0)


def cummax(jax: Any, x: Any, axis: int | None = None) -> Any:
    """jax.lax counts no axes from the end."""
    return jax.lax.cummax(x, axis=(axis or 0) % x.ndim)


def cummin(jax: Any, x: Any, axis: int | None = None) -> Any:
    return jax.lax.cummin(x, axis=(axis or 0) % x.ndim)


ROWS: dict[str, Lowering] = {
    "cummax": cummax,
    "cummin": cummin,
    "cumprod": cumprod,
    "cumsum": cumsum,
}

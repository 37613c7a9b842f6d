"""Sums, products and extremes of everything up to an element."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def _cumulative(name: str) -> Lowering:
    def cumulative(torch: Any, x: Any, axis: int | None = None) -> Any:
        return getattr(torch, name)(x, dim=axis or 0)

    return cumulative


def _extreme(name: str) -> Lowering:
    def extreme(torch: Any, x: Any, axis: int | None = None) -> Any:
        return getattr(torch, name)(x, dim=axis or 0).values

    return extreme


ROWS: dict[str, Lowering] = {
    "cummax": _extreme("cummax"),
    "cummin": _extreme("cummin"),
    "cumprod": _cumulative("cumprod"),
    "cumsum": _cumulative("cumsum"),
}

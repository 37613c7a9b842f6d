"""Finite differences, for the engine that shows their results."""

from __future__ import annotations

from typing import Literal

from gradcheck_cli.domain.records import dataclass

Scheme = Literal["forward", "central"]
"""(f(x + h) - f(x)) / h, or (f(x + h) - f(x - h)) / 2h."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference quotient: its scheme and its step h, None for the one that is usual in a dtype
    at the size of an input."""

    scheme: Scheme = "central"
    step: float | None = None

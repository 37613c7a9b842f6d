from __future__ import annotations

import pytest

from gradcheck_cli.checks.behaviour import checks
from gradcheck_cli.checks.certified import rounding
from gradcheck_cli.truth.certified import enclosed_products
from gradcheck_cli.truth.layers import projections
from gradcheck_cli.truth.numerics import probes


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of a few thousand numbers are looked at as large ones are."""
    for module, name in (
        (checks, "LARGE"),
        (probes, "MANY"),
        (projections, "MANY"),
        (projections, "LARGE"),
        (rounding, "MANY"),
        (enclosed_products, "MOST_NUMBERS"),
    ):
        monkeypatch.setattr(module, name, 1000)

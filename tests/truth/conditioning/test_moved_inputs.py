"""Where first order sees no slope, inputs that are moved by half an ulp do."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.truth import TruthBlock
from tests.conftest import truth_of


def block_of(formula: str, x: float, dtype: str) -> TruthBlock:
    truth = truth_of(formula, {"x": x}, dtype=dtype, modes=("reverse",), conditioning=True)
    return truth.blocks["reverse", "x"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("formula", "x"),
    [("sinc(x + 0.3)", 1e30), ("sinc(0.25 - x)", -3e20), ("sinc(x + 0.4) * x", 2.0**90)],
)
def test_an_absorbed_phase_is_ill_conditioned(formula: str, x: float, dtype: str) -> None:
    """Every float nearby is an integer, at which the derivative is that of an integer."""
    block = block_of(formula, x, dtype)
    assert np.all(block.certified)
    assert block.condition > 0.1 * np.abs(block.value)
    assert block.allowance >= block.condition
    assert block.floor >= block.condition


@pytest.mark.parametrize(("formula", "x"), [("sinc(x + 0.3)", 1.5), ("exp(x)", 3.0)])
def test_where_nothing_is_absorbed_first_order_decides(formula: str, x: float) -> None:
    block = block_of(formula, x, "float64")
    assert block.condition < 1e-14 * np.abs(block.value)

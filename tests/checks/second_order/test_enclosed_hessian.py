"""Enclosures of the Hessian of a large layer, in balls of float64 and with more bits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.checks.second_order.enclosed_hessian import (
    enclosed_hessian,
    is_settled,
    with_more_bits,
)
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.formula import Argument, parse
from tests.checks.making import bound_layer

X = np.linspace(-1.5, 2.0, 8)
SUM = SimpleNamespace(forward=np.sum, backward=lambda up, x: up * np.ones_like(x))


@pytest.mark.parametrize("large", [1.0, 2.0**40])
@pytest.mark.parametrize(
    ("formula", "second"),
    [
        ("sum((x + {} - {}) ** 3)", lambda x: 6 * x),
        ("sum((x * {} + 1 - x * {}) * x ** 2)", lambda x: 2 + 0 * x),
    ],
)
def test_terms_that_cancel_take_more_bits(
    formula: str, second: Callable[[Array], Array], large: float
) -> None:
    layer = bound_layer(SUM, {"x": X})
    program = parse(formula.format(large, large), inputs={"x": Argument(X.shape, "float")}).program
    assert program is not None
    truth, directions = ProgramTruth(layer, program), {"x": np.eye(X.size)[:2]}
    found = enclosed_hessian(truth, np.ones(1), directions)
    assert is_settled(found) == (large == 1.0)
    found = with_more_bits(truth, np.ones(1), directions, found)
    assert is_settled(found)
    exact = np.diag(second(X))[:, :2]
    assert np.all(np.abs(found["x", "x"].value - exact) <= found["x", "x"].radius)

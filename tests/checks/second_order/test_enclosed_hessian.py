"""Enclosures of the Hessian of a large layer, in balls of float64 and with more bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.checks.certified.program_truth import ProgramTruth
from gradcheck_cli.checks.second_order.enclosed_hessian import (
    along_firsts,
    enclosed_hessian,
    is_settled,
    truth_of_enclosure,
    with_more_bits,
)
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.formula import Argument, parse
from gradcheck_cli.testing.api import check
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray, EnclosedProducts
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


def test_compositions_share_what_was_enclosed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, ...]] = []
    bent = EnclosedProducts.bent

    def counted(self: EnclosedProducts, cotangent: Array, tangents: Mapping[str, Array]) -> Any:
        runs.append(tuple(tangents))
        return bent(self, cotangent, tangents)

    monkeypatch.setattr(EnclosedProducts, "bent", counted)
    x = torch.linspace(-1, 2, 1200, dtype=torch.float64).reshape(20, 60)
    report = check(lambda x: torch.sin(x @ x.T), x, order=2, dtypes="float64")
    assert report.passed
    assert len({check.mode for check in report.results[0].checks if "-over-" in check.mode}) == 4
    assert len(runs) == 2  # one for each direction


def test_terms_that_cancel_are_added_up_before_an_error_is_accepted() -> None:
    column = EnclosedArray(np.ones((100, 1)), np.full((100, 1), 2.0**-52))
    rows = np.where(np.arange(100) < 51, 1.0, -1.0)[None]
    (total,) = along_firsts({("x", "x"): column}, {"x": rows}).values()
    assert total.value == 2
    assert total.radius >= 100 * 2.0**-52
    truth, of_one = truth_of_enclosure(total), truth_of_enclosure(column)
    assert truth.certified.all()
    assert truth.error < np.sum(of_one.error) / 10

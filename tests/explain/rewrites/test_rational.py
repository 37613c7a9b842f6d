"""Fractions are put over one denominator where that makes them shorter."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.rewrites.rational import one_fraction
from gradcheck_cli.explain.rewrites.rule import Site
from gradcheck_cli.formula.printing import statements
from tests.conftest import array, program_of
from tests.explain.rewrites.test_catalogue import SPAN


def fraction(formula: str, **values: Any) -> list[str]:
    forest = ExprPool(program_of(formula, {name: array(value) for name, value in values.items()}))
    site = Site(ExprBuilder(forest), forest.output, FORMATS["float32"], lambda _: None)
    return [statements(forest.to_program(one.new, SPAN)) for one in one_fraction.proposals(site)]


def test_what_is_no_polynomial_stands_for_itself() -> None:
    assert fraction("1 - exp(x) / (exp(x) + y)", x=1.0, y=2.0) == ["y / (y + exp(x))"]


def test_a_polynomial_is_factored() -> None:
    assert fraction("(x * x - 2 * x * y + y * y) / (x * x - y * y)", x=1.0, y=2.0) == [
        "(x - y) / (y + x)"
    ]


@pytest.mark.parametrize(
    "formula",
    ["x + y", "x / y", "0.1 * x + 0.1 * y - 0.1 * x", "(x + y) ** 9 / x"],
    ids=["nothing cancels", "no sum", "constants that are rounded", "too high a power"],
)
def test_what_gets_no_shorter_is_left_alone(formula: str) -> None:
    assert fraction(formula, x=1.0, y=2.0) == []


def test_what_would_take_long_to_expand_is_not_begun() -> None:
    many = dict.fromkeys("abcde", 1.0)
    assert fraction("((a + b + c + d + e) ** 8) ** 8 / a - 1 / a", **many) == []

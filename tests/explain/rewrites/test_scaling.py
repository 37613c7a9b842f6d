"""Homogeneous parts are found whatever they are made of, and nothing else is divided."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.rewrites.rule import Site
from gradcheck_cli.explain.rewrites.scaling import scaled_by_the_largest
from gradcheck_cli.formula.printing import statements
from tests.conftest import array, program_of
from tests.explain.rewrites.test_catalogue import SPAN


def scaled(formula: str, **values: Any) -> list[str]:
    """What is proposed for the whole formula."""
    forest = ExprPool(program_of(formula, {name: array(value) for name, value in values.items()}))
    site = Site(ExprBuilder(forest), forest.output, FORMATS["float32"], lambda _: None)
    found = scaled_by_the_largest.proposals(site)
    return [statements(forest.to_program(one.new, SPAN)) for one in found]


def test_a_constant_that_is_added_is_divided_as_often_as_the_square() -> None:
    (made,) = scaled("x / sqrt(x ** 2 + 0.5)", x=3.0)
    assert made.splitlines() == [
        "t1 = stop_gradient(abs(x))",
        "t2 = x / t1",
        "t2 / sqrt(t2 ** 2 + 0.5 / t1 / t1)",
    ]


def test_inputs_that_need_not_be_alike_have_factors_of_their_own() -> None:
    each = scaled("a * a / (a * a + b * b) * (u * u / (u * u + v * v))", a=1.0, b=2.0, u=3.0, v=4.0)
    found = [
        [pair for pair in ("abs(a), abs(b)", "abs(u), abs(v)") if f"maximum({pair})" in made]
        for made in each
    ]
    assert sorted(map(len, found)) == [1, 1, 2]  # the one, the other, both


def test_weights_follow_from_what_is_added() -> None:
    # the variance grows as the square
    found = scaled("x / sqrt(x ** 2 + v)", x=3.0, v=2.0)
    assert any("t1 = stop_gradient(abs(x))" in made and "v / t1 / t1" in made for made in found)


@pytest.mark.parametrize(
    "formula",
    [
        "exp(x) / y",  # of no degree
        "x * x + y * y",  # nothing on the way is larger than the result
        "x / y",
        "x / (x + sin(x))",
    ],
)
def test_where_it_does_not_help_nothing_is_proposed(formula: str) -> None:
    assert scaled(formula, x=3.0, y=2.0) == []

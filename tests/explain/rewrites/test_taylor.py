"""Taylor series of any function of one number: what is developed, and how far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.explain.algebra.building import ExprBuilder
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.rewrites import taylor
from gradcheck_cli.explain.rewrites.rule import Proposal, Site
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import array, program_of


def proposed(formula: str, **values: Any) -> tuple[ExprBuilder, list[Proposal]]:
    program = program_of(formula, values)
    arrays = {name: array(value) for name, value in values.items()}
    forest = ExprPool(program)
    numbers = PlainFunction(program, "float32").nodes(arrays)
    site = Site(
        ExprBuilder(forest),
        forest.output,
        FORMATS["float32"],
        lambda expr: None if expr.origin is None else np.asarray(numbers[expr.origin]),
    )
    return site.workshop, list(taylor.RULES[0].proposals(site))


def coefficients(formula: str, name: str = "x") -> list[float]:
    program = program_of(formula, {name: 0.5})
    forest = ExprPool(program)
    return taylor._developed_in(forest.output, forest.of_node[program.inputs[name]])


def test_a_removable_singularity_is_divided_away() -> None:
    first = [1 / 2, 0.0, 1 / 8, 0.0, 13 / 240]
    assert coefficients("(tan(x) - sin(x)) / x ** 3")[:5] == pytest.approx(first)


def test_zeros_that_were_rounded_are_zeros() -> None:
    # the root of 3 is irrational, and its square is 3
    assert coefficients("(sqrt(3 + x) ** 2 - 3) / x")[:3] == pytest.approx([1.0, 0.0, 0.0])


@pytest.mark.parametrize("formula", ["sqrt(x) / x", "log(x) - 1", "abs(x) / x"])
def test_what_has_no_series_is_left_alone(formula: str) -> None:
    assert proposed(formula, x=1e-3)[1] == []


def test_far_from_zero_there_is_nothing_to_do() -> None:
    assert proposed("(tan(x) - sin(x)) / x ** 3", x=1e-3)[1]
    assert proposed("(tan(x) - sin(x)) / x ** 3", x=1.0)[1] == []


def test_it_is_a_function_of_whatever_all_goes_through() -> None:
    # of the norm, not of an element of the array; and of the square, where only that is needed
    shop, (found,) = proposed("n = sqrt(sum(x * x))\n(n - atan(n)) / n ** 3", x=[1e-3, 2e-3])
    near = found.new.args[0]
    assert near.op == "less"
    assert near.args[0] is shop.forest.output.args[0].args[0].args[0]

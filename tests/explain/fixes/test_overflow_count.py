"""Numbers that the dtype cannot hold are counted where they are used."""

from __future__ import annotations

import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.explain.algebra.expressions import ExprPool
from gradcheck_cli.explain.fixes.overflow_count import Ranges
from tests.conftest import array, program_of


@pytest.mark.parametrize(
    ("formula", "x", "dtype", "uses"),
    [
        ("1 / exp(x)", 100.0, "float32", 2),  # e^100 is divided by, and the result is subnormal
        ("1 / exp(x)", 100.0, "float64", 0),
        ("sqrt(x * x)", 300.0, "float16", 1),
        ("x * 0", 5.0, "float16", 0),  # a zero fits
        ("y = exp(x)\nlog(y) + y / (1 + y)", 12.0, "float16", 4),
    ],
)
def test_uses_of_numbers_that_do_not_fit(formula: str, x: float, dtype: str, uses: int) -> None:
    forest = ExprPool(program_of(formula, {"x": x}))
    assert Ranges(forest, FORMATS[dtype], {"x": array(x)}).lost(forest.output) == uses

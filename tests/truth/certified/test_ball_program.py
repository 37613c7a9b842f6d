"""Values of all nodes of a program without rounding, and how much work a program is."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.truth.certified.ball_program import exact_nodes, operations
from tests.conftest import program_of


def output(formula: str, dtype: str = "float64", **values: object) -> object:
    given = {name: np.asarray(value, np.float64) for name, value in values.items()}
    program = program_of(formula, given)
    found = exact_nodes(program, given, dtype)
    return None if found is None else found[program.output]


def test_what_rounding_would_lose_is_there() -> None:
    assert output("log(1 + exp(x))", x=-60.0) == np.exp(-60.0)
    np.testing.assert_array_equal(output("(x + 1e17) - 1e17", x=[1.0, 3.0]), [1.0, 3.0])


def test_constants_are_those_of_the_dtype() -> None:
    assert output("x + 0.1", "float32", x=0.0) == float(np.float32(0.1))


def test_what_is_exactly_zero_is_known() -> None:
    assert output("x - x", x=0.5) == 0.0
    assert output("exp(x) - exp(x)", x=0.5) == 0.0


def test_what_has_no_enclosure_is_not_known() -> None:
    assert output("sum(eigvalsh(x))", x=[[2.0, 1.0], [1.0, 3.0]]) is None


def test_operations_count_elements() -> None:
    program = program_of("exp(x) * x", {"x": np.zeros(5)})
    assert operations(program) == 10

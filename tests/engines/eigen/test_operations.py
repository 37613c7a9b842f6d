"""Operations as expressions of C++, before anything is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.engines.eigen.body import Body, Pools
from gradcheck_cli.engines.eigen.operations import expression
from gradcheck_cli.engines.errors import Unsupported
from tests.conftest import array, program_of


def said(formula: str, **values: Any) -> tuple[str, Body]:
    """The expression of the last operation, whose arguments are inputs."""
    program = program_of(formula, {name: array(value) for name, value in values.items()})
    body = Body(program, "float64", Pools())
    for index, node in enumerate(program.nodes):
        if node.value is not None:
            body.known[index] = np.asarray(node.value)
    return expression(body, program.output, program.result), body


def test_a_number_of_the_formula_stands_in_the_expression() -> None:
    found, body = said("x * 2.5", x=[1.0, 2.0])
    assert (2.5).hex() in found
    assert found.startswith("each<T>(2,")
    assert body.lines == []


def test_what_is_broadcast_is_gathered_first() -> None:
    found, body = said("x + y", x=np.ones((2, 3)), y=np.ones(3))
    assert found.startswith("each<T>(6,")
    assert any("gather<T>" in line for line in body.lines)


def test_what_only_moves_numbers_is_an_index_map() -> None:
    found, body = said("transpose(x)", x=np.ones((2, 3)))
    assert "given.maps" in " ".join([found, *body.lines])
    assert body._pools.maps.all("int64").tolist() == [0, 3, 1, 4, 2, 5]


def test_what_moves_nothing_is_the_array_itself() -> None:
    found, body = said("reshape(x, (3, 2))", x=np.ones((2, 3)))
    assert found == f"n{body.program.inputs['x']}"


@pytest.mark.parametrize("op", ["erfcx", "log_ndtr"])
def test_what_has_no_words_is_refused_by_name(op: str) -> None:
    with pytest.raises(Unsupported, match=f"`{op}`"):
        said(f"{op}(x)", x=1.0)

"""Parts of a program can be replaced."""

from __future__ import annotations

import pytest

from gradcheck_cli.domain.place import Span
from gradcheck_cli.explain.algebra.expressions import ExprPool, ShapeMismatch, ordered
from gradcheck_cli.formula.printing import statements
from tests.conftest import program_of

SPAN = Span(7, 1, 7, 5)


def test_a_program_comes_back_as_it_was() -> None:
    program = program_of("s = exp(a)\ns / (1 + s) * b", {"a": 1.0, "b": 2.0})
    forest = ExprPool(program)
    assert forest.to_program(forest.output, SPAN) == program


def test_what_is_replaced_is_replaced_everywhere() -> None:
    program = program_of("exp(a) / (1 + exp(a))", {"a": 1.0})
    forest = ExprPool(program)
    exponential = next(e for e in ordered(forest.output) if e.op == "exp")
    new = forest.call("tanh", forest.of_node[0])
    made = forest.to_program(forest.replaced(forest.output, exponential, new), SPAN)
    assert statements(made) == "t1 = tanh(a)\nt1 / (1 + t1)"
    (node,) = (node for node in made.nodes if node.op == "tanh")
    assert node.span == SPAN


def test_another_shape_is_a_misfit() -> None:
    forest = ExprPool(program_of("sum(exp(v))", {"v": [1.0, 2.0]}))
    exponential = next(e for e in ordered(forest.output) if e.op == "exp")
    with pytest.raises(ShapeMismatch):
        forest.replaced(forest.output, exponential, forest.constant(1.0))
    with pytest.raises(ShapeMismatch):
        forest.call("matmul", exponential, forest.constant(1.0))

from __future__ import annotations

from gradcheck_cli.formula import used_inputs

from .writing import output, program


def test_used_inputs_are_those_that_the_output_depends_on() -> None:
    assert used_inputs(program("y = x @ W\nunused = exp(v)\nsum(y) * s")) == {"x", "W", "s"}
    assert used_inputs(program("s")) == {"s"}


def test_a_name_is_one_value_and_two_expressions_are_two() -> None:
    built = program("a = sin(s)\na * a + sin(s)")
    assert sum(node.op == "sin" for node in built.nodes) == 2
    (product,) = (node for node in built.nodes if node.op == "multiply")
    assert product.args[0] == product.args[1]


def test_every_keyword_of_a_row_is_written_out() -> None:
    assert output("logsumexp(v)").keywords == {"axis": -1, "keepdims": False}

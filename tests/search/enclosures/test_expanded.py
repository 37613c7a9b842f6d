from dataclasses import replace

from gradcheck_cli.search.enclosures.expanded import expanded, gathered
from tests.search.searched import searched, spec_of


def test_a_row_of_other_rows_is_these() -> None:
    program = expanded(spec_of("{x: [1, 2], y: [0, 1]}", "mse(x, y) + sum(x)").program)
    assert [node.op for node in program.nodes if node.args] == [
        *("subtract", "square", "mean", "sum", "add")
    ]
    assert expanded(program) is program


def test_what_is_made_of_others_is_proven() -> None:
    spec = spec_of("{x: {value: [1, 2], domain: [-5, 5]}, y: [0, 1]}", "mse(x, y)")
    assert searched(spec, budget=1.0)["value-inaccurate"].verdict == "proven-absent"


def test_a_kernel_that_adds_in_any_order_is_a_sum() -> None:
    program = spec_of("{x: 1.0, y: 2.0}", "x + y + x*y").program
    nodes = [replace(one, text="AddN" if one.op == "add" else one.text) for one in program.nodes]
    found = gathered(replace(program, nodes=tuple(nodes)))
    assert [node.op for node in found.nodes if node.args] == ["add", "multiply", "stack", "sum"]
    stack = next(node for node in found.nodes if node.op == "stack")
    assert (len(stack.args), stack.shape, found.nodes[found.output].shape) == (3, (3,), ())
    assert [node.op for node in gathered(program).nodes] == [node.op for node in program.nodes]

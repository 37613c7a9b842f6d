from gradcheck_cli.search.enclosures.expanded import expanded
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

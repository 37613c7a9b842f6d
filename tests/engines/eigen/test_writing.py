"""A program as C++: which line is about which operation, and what is passed along beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.program import CUSTOM, Program
from gradcheck_cli.engines.eigen.writing import GeneratedCode, write
from gradcheck_cli.engines.errors import NodeFault, Unsupported
from tests.conftest import array, program_of


def written(formula: str, dtype: str = "float64", **values: Any) -> tuple[Program, GeneratedCode]:
    arrays = {name: array(value) for name, value in values.items()}
    program = program_of(formula, arrays)
    return program, write(program, arrays, dtype)


def test_every_line_of_the_function_is_about_a_node() -> None:
    program, code = written("exp(x) * y", x=[1.0, 2.0], y=3.0)
    lines = code.text.splitlines()
    about = {program.nodes[node].op: lines[line - 1] for line, node in code.nodes.items()}
    assert "exp" in about["exp"]
    assert "each<T>(2" in about["multiply"]
    assert len(code.nodes) == sum(line.startswith("  const auto") for line in lines)


def test_inputs_stand_one_after_the_other_and_whole_numbers_among_none_of_them() -> None:
    _, code = written("take(x, i) + y", x=[1.0, 2.0, 3.0], i=np.array([2, 0]), y=[1.0, 1.0])
    assert code.places == {"x": 0, "y": 3}
    assert code.total == 5
    assert code.maps.tolist() == [2, 0]


@pytest.mark.parametrize(("dtype", "real"), [("float32", "float"), ("float64", "double")])
def test_the_entry_is_of_the_dtype(dtype: str, real: str) -> None:
    _, code = written("x * x", dtype, x=1.0)
    assert f"gradcheck_{dtype}(" in code.text
    assert f"const {real}* values" in code.text
    assert code.constants.dtype == dtype


def test_only_matrices_include_what_is_costly_to_compile() -> None:
    assert "matrices" not in written("x * x", x=1.0)[1].text
    assert "matrices" in written("det(x)", x=np.eye(2))[1].text


def test_what_hangs_on_no_float_is_computed_here() -> None:
    _, code = written("where(m, x, 0)", x=[1.0, 2.0], m=np.array([True, False]))
    assert code.flags.tolist() == [1, 0]


def test_an_operation_that_cannot_be_said_is_named() -> None:
    with pytest.raises(NodeFault) as fault:
        written("erfcx(x)", x=1.0)
    assert isinstance(fault.value.__cause__, Unsupported)
    assert "`erfcx`" in str(fault.value.__cause__)


def test_lines_of_a_stated_rule_are_about_its_call() -> None:
    rule = "def r(up, x):\n    return 3 * up\n"
    text = rule + "@custom_gradient(r)\ndef f(x):\n    return 2 * x\nf(x)"
    program, code = written(text, x=1.0)
    (call,) = (i for i, node in enumerate(program.nodes) if node.op == CUSTOM)
    assert "stated1_vjp" in code.text
    assert set(code.nodes.values()) <= {call, *program.inputs.values()}

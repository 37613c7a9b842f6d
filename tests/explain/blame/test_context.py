"""What selects an operation, what it hands on, which term was absorbed, where parts meet."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Operation, Trace
from gradcheck_cli.explain.blame.context import (
    absorbed_by,
    accumulated,
    handed_over,
    joint,
    silenced,
)
from gradcheck_cli.explain.blame.traces import Traces, traces_of
from gradcheck_cli.truth.plain import PlainFunction
from tests.conftest import program_of


def traces(formula: str, derivatives: dict[str, float], mode: str = "reverse") -> Traces:
    """x = 1 throughout; derivatives by the row or the input, 1 elsewhere."""
    program = program_of(formula, {"x": 1.0})
    values = PlainFunction(program, "float32").nodes({"x": np.asarray(1.0)})
    slopes = {
        i: np.asarray(derivatives.get(node.name if node.op == "input" else node.op, 1.0))
        for i, node in enumerate(program.nodes)
    }
    trace = Trace(dict(enumerate(map(np.asarray, values))), slopes)
    return traces_of(program, "float32", mode, trace, trace, 1.0)


def node(made: Traces, op: str) -> int:
    return next(i for i, one in enumerate(made.program.nodes) if one.op == op)


@pytest.mark.parametrize(
    ("formula", "zeros", "expected"),
    [
        ("where(x < 0, exp(x), x)", ["exp"], "masked branch"),
        ("clip(exp(x), 0, 1)", ["exp"], "masked branch"),
        ("sin(exp(x)) * 0", ["exp", "sin"], "0*inf"),
        ("sin(exp(x)) + x", ["exp", "sin"], None),  # an underflow further up
        ("where(x < 0, exp(x), x)", [], None),  # it is the branch that was taken
    ],
)
def test_silence(formula: str, zeros: list[str], expected: str | None) -> None:
    made = traces(formula, dict.fromkeys(zeros, 0.0))
    assert silenced(made, node(made, "exp")) == expected


def test_tangents_do_not_tell_what_becomes_of_them() -> None:
    made = traces("where(x < 0, exp(x), x)", {}, "forward")
    assert silenced(made, node(made, "exp")) == "masked branch"


@pytest.mark.parametrize(("exact", "expected"), [(3.0, True), (9.0, False)])
def test_what_is_handed_over(exact: float, expected: bool) -> None:
    made = traces("1 / exp(x)", {"exp": 3.0})
    op = Operation("mul", "backward", node(made, "divide"), (), (1.0,), (1.0,), exact, exact, 9.0)
    assert handed_over(made, op) is expected


@pytest.mark.parametrize(
    ("formula", "term"),
    [
        ("log(x + 1e-9)", "constant"),
        ("log(1e9 + x)", "input"),
        ("log(1e-60 + x)", "constant"),  # zero before it is added
        ("log(x + 0.5)", None),
        ("log(2 * x)", None),
    ],
)
def test_absorbed_terms(formula: str, term: str | None) -> None:
    made = traces(formula, {})
    found = absorbed_by(made, node(made, "log"))
    assert (None if found is None else made.program.nodes[found].op) == term


@pytest.mark.parametrize(
    ("formula", "inputs", "result", "expected"),
    [
        ("exp(x) - x", (2.0, -1.5), 0.5, "input"),
        ("x * x", (0.25, 0.25), 0.5, "input"),
        ("exp(x) - x", (1.0, 1.0, -1.5), 0.5, "input"),
        ("exp(x) - 1", (2.0, -1.5), 0.5, None),  # one use: a derivative that is a sum
        ("exp(x) - x", (2.0, -1.5), 0.75, None),  # no sum
        ("exp(x) - x", (2.0,), 2.0, None),
    ],
)
def test_parts_of_a_derivative_meet(
    formula: str, inputs: tuple[float, ...], result: float, expected: str | None
) -> None:
    made = traces(formula, {"x": result})
    op = Operation("add", "backward", 1, (), inputs, inputs, result, result, 9.0)
    found = accumulated(made, op)
    assert (None if found is None else made.program.nodes[found].op) == expected


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("sqrt(x + 1) - sqrt(x)", "sqrt(x + 1) - sqrt(x)"),
        ("y = exp(x)\nz = y - x\nz * 2", "y - x"),
        ("x * x + 1", "x * x"),
        ("sinh(x) / x", "sinh(x) / x"),
    ],
)
def test_where_two_uses_meet(formula: str, text: str) -> None:
    made = traces(formula, {})
    assert made.program.nodes[joint(made, made.program.inputs["x"])].text == text

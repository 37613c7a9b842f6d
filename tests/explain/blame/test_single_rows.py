"""Rows that an engine computes by a formula which is off, in traces made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Trace
from gradcheck_cli.explain.blame.explanation import blame_row
from gradcheck_cli.explain.blame.single_rows import first_unlike
from gradcheck_cli.explain.blame.traces import Traces, traces_of
from tests.conftest import program_of

FORMULA = "a = sin(x)\nb = softmax(a)\nsum(log(b) * a)"
X = np.array([0.3, -0.5, 0.9])
SOFTMAX, LOG = 2, 3


def traced(mode: str, spoilt: Mapping[int, float], slopes: Mapping[int, float]) -> Traces:
    """What a run in float64 had, with the values of some nodes off by a factor and all that follows
    made of those; likewise the derivatives that some nodes hand on."""
    from reference_engine import jvp, vjp
    from reference_engine.op import TABLE

    program = program_of(FORMULA, {"x": X})
    nodes = program.nodes
    values: dict[int, Array] = {0: X}
    for i, node in enumerate(nodes):
        if node.op != "input":
            y = TABLE[node.op](*(values[k] for k in node.args), **node.keywords)
            values[i] = np.asarray(y) * spoilt.get(i, 1.0)
    dots: dict[int, Array] = {}

    def call(i: int) -> tuple[Any, list[Array]]:
        node = nodes[i]
        return (lambda *xs: TABLE[node.op](*xs, **node.keywords)), [values[k] for k in node.args]

    if mode == "forward":
        dots[0] = np.array([1.0, 0.0, 0.0])
        for i in range(1, len(nodes)):
            _, y_dot = jvp(*call(i), [dots[k] for k in nodes[i].args])
            dots[i] = np.asarray(y_dot) * slopes.get(i, 1.0)
    else:
        dots[program.output] = np.ones(())
        for i in range(len(nodes) - 1, 0, -1):
            function, args = call(i)
            _, pull = vjp(function, *args)
            for k, x_bar in zip(nodes[i].args, pull(dots[i]), strict=True):
                dots[k] = dots.get(k, 0.0) + np.asarray(x_bar) * slopes.get(i, 1.0)
    return traces_of(program, "float64", mode, Trace(values, dots), None)


def test_nodes() -> None:
    nodes = program_of(FORMULA, {"x": X}).nodes
    assert [nodes[i].op for i in (SOFTMAX, LOG)] == ["softmax", "log"]


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_right_rows(mode: str) -> None:
    assert first_unlike(traced(mode, {}, {})) is None


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("node", [SOFTMAX, LOG])
def test_value_of_a_row(mode: str, node: int) -> None:
    found = first_unlike(traced(mode, {node: 1 + 1e-8}, {}))
    assert found is not None
    assert (found.node, found.phase) == (node, "forward")
    np.testing.assert_allclose(found.result / found.exact, 1 + 1e-8, rtol=1e-12)


@pytest.mark.parametrize(("mode", "phase"), [("reverse", "backward"), ("forward", "tangent")])
@pytest.mark.parametrize("node", [SOFTMAX, LOG])
def test_derivative_of_a_row(mode: str, phase: str, node: int) -> None:
    """`a` is used twice, so what softmax hands back is seen in no single cotangent."""
    found = first_unlike(traced(mode, {}, {node: 1 + 1e-8}))
    if node == SOFTMAX and mode == "reverse":
        assert found is None
        return
    assert found is not None
    assert (found.node, found.phase) == (node, phase)


def test_cause() -> None:
    cause = blame_row(traced("reverse", {LOG: 1 + 1e-10}, {}), "GC301")
    assert cause is not None
    assert (cause.op, cause.kind, cause.proven) == ("log", "inaccurate kernel", True)
    shown, right = cause.detail.partition(" = ")[2].split("; exact: ")
    assert shown != right


def test_rounding_is_no_other_formula() -> None:
    assert first_unlike(traced("reverse", {LOG: 1 + 1e-13}, {LOG: 1 - 1e-13})) is None


def test_a_framework_s_own_formula(judged: Callable[..., Any]) -> None:
    """TensorFlow's gelu takes the square root of 2 in float32, also for float64: every operation
    that it executes is right to the last digit."""
    formula = "b = cbrt(1 + x)\nsum(gelu(b) ** 2)"
    made = judged(formula, {"x": [0.3, 0.9]}, dtype="float64", engines=["tensorflow"])
    assert made.codes == ["GC301"]
    for finding in made.findings:
        assert finding.cause is not None
        assert (finding.cause.text, finding.cause.kind) == ("gelu(b)", "inaccurate kernel")

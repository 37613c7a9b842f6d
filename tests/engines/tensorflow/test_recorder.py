"""What is written down of TensorFlow, and that nothing of the recorder stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem, Projection, TraceRequest
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.kit import run_traced
from gradcheck_cli.engines.kit.adapter import ProgramEngine
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.truth.plain import PlainFunction

TEXT = "a = exp(x)\nb = std(a * x)\nc = a / (1 + a)\nsum(c) * b"
X = np.array([0.3, -1.2, 2.1])


@pytest.fixture
def recorded(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> Callable[[str], tuple[Any, Execution]]:
    """The program of TEXT, and its record in a mode."""

    def record(mode: str) -> tuple[Any, Execution]:
        engine = engine_called("tensorflow")
        assert isinstance(engine, ProgramEngine)
        made = program(TEXT, {"x": X})
        trace = TraceRequest(input="x", target=0.0)
        problem = Problem(made, {"x": X}, ("x",), "float64", "float64", mode, trace=trace)  # type: ignore[arg-type]
        framework, prepared = engine._prepare(made, "float64", "float64")
        return made, run_traced.recorded(framework, prepared, problem, trace)

    return record


def test_backward_operations_run_for_the_node_that_they_differentiate(
    recorded: Callable[..., Any],
) -> None:
    made, execution = recorded("reverse")
    needed = [execution.steps[i] for i in execution.needed()]
    places = {
        (step.name, made.nodes[step.node].text) for step in needed if step.phase == "backward"
    }
    assert ("RealDiv", "a / (1 + a)") in places
    assert ("SqrtGrad", "std(a * x)") in places
    texts = {text for _, text in places}
    assert {"exp(x)", "a * x", "std(a * x)", "a / (1 + a)", "x"} <= texts
    # the cotangents of a, which three operations take, are added up for exp; those of x for x
    assert ("AddN", "exp(x)") in places
    assert ("AddN", "x") in places


def test_steps_stand_behind_what_they_need(recorded: Callable[..., Any]) -> None:
    """An accumulator tells of the tangent's operations before the operation itself."""
    _, execution = recorded("forward")
    maker = {slot: k for k, step in enumerate(execution.steps) for slot in step.results}
    for k, step in enumerate(execution.steps):
        assert all(maker[slot] < k for slot in step.args if slot in maker)
    phases = {step.phase for step in execution.steps}
    assert phases == {"forward", "tangent"}


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_recorder_leaves_nothing_behind(recorded: Callable[..., Any], mode: str) -> None:
    import tensorflow as tf

    _, execution = recorded(mode)
    count = len(execution.steps)
    x = tf.constant(X)
    with tf.GradientTape() as tape, tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward:
        tape.watch(x)
        y = tf.exp(x) * x
    np.testing.assert_allclose(tape.gradient(y, x), np.exp(X) * (1 + X), rtol=1e-14)
    np.testing.assert_allclose(forward.jvp(y), np.exp(X) * (1 + X), rtol=1e-14)
    assert len(execution.steps) == count


@pytest.mark.parametrize("name", ["elu", "selu"])
def test_kernels_that_rebuild_a_derivative_are_done_exactly(
    engine_called: Callable[[str], Engine], program: Callable[..., Any], name: str
) -> None:
    """At -68 the result is at its limit: what float64 absorbs as well is repaired by balls."""
    x = {"x": np.array(-68.5)}
    made = program(f"{name}(x)", x)
    trace = TraceRequest(input="x", target=float(np.exp(-68.5)) * (1.758 if name == "selu" else 1))
    problem = Problem(made, x, ("x",), "float32", "float32", "reverse", trace=trace)
    found = engine_called("tensorflow").evaluate(problem).trace
    assert found is not None
    assert [found.operations[i].name for i in found.culprits] == [f"{name.capitalize()}Grad"]
    assert not found.enclosed


@pytest.mark.parametrize(
    "masks",
    [
        "stack([x[0] > 0, x[1] > 0, x[2] > 0])",
        "concatenate([x[:1] > 0, x[1:] > 1])",
        "flip(x > 0)",
        "roll(x > 0, 1)",
    ],
)
def test_masks_that_are_moved_stand_in_the_program_of_the_gradient(
    masks: str, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    """They choose by the numbers of each run."""
    made = program(f"sum(where({masks}, x * x, 3 * x))", {"x": X})
    rows = Projection(rows=np.ones(1))
    problem = Problem(made, {"x": X}, ("x",), "float64", "float64", "reverse", rows)
    found = engine_program(engine_called("tensorflow"), problem)
    assert found.program is not None, found.reason
    for x in (X, -X, X[::-1].copy()):
        values = {**found.constants, "x": x}
        nodes = PlainFunction(found.program, "float64").nodes(values)
        value, gradient = (nodes[i] for i in found.program.outputs if i is not None)
        mask = PlainFunction(program(f"where({masks}, 1.0, 0.0)", {"x": x}), "float64")({"x": x})
        assert np.allclose(value, np.sum(np.where(mask, x * x, 3 * x)))
        assert np.allclose(gradient, np.where(mask, 2 * x, 3.0))

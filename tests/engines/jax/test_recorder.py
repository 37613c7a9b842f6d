"""What is written down of JAX: the equations of a derivative, and for which node they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Evaluation, Problem, TraceRequest
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.execution import Execution
from gradcheck_cli.engines.kit import run_traced
from gradcheck_cli.engines.kit.adapter import ProgramEngine
from gradcheck_cli.engines.layer.lifting import NotLifted, lifted_outputs
from gradcheck_cli.engines.trace.shadow import FIRST_BITS, FLOAT64, Numbers, shadow, to_float

X = np.array([0.3, -1.2, 2.1])


@pytest.fixture
def recorded(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> Callable[..., tuple[Any, Execution]]:
    """A formula of x, and what is written down of it in a mode."""

    def record(text: str, mode: str, x: np.ndarray = X) -> tuple[Any, Execution]:
        engine = engine_called("jax")
        assert isinstance(engine, ProgramEngine)
        made = program(text, {"x": x})
        trace = TraceRequest(input="x", target=0.0)
        problem = Problem(made, {"x": x}, ("x",), "float64", "float64", mode, trace=trace)  # type: ignore[arg-type]
        framework, prepared = engine._prepare(made, "float64", "float64")
        return made, run_traced.recorded(framework, prepared, problem, trace)

    return record


def test_equations_stand_for_the_nodes_that_they_differentiate(
    recorded: Callable[..., Any],
) -> None:
    made, execution = recorded("a = exp(x)\nb = a * x\nsum(a / (1 + b))", "reverse")
    needed = [execution.steps[i] for i in execution.needed()]
    places = {
        (step.name, made.nodes[step.node].text) for step in needed if step.phase == "backward"
    }
    assert ("integer_pow", "a / (1 + b)") in places
    # the cotangents of a, which two operations take, are added up for exp; those of x for x
    assert ("add_any", "exp(x)") in places
    assert ("add_any", "x") in places
    forward = [(step.name, made.nodes[step.node].text) for step in needed if step.node is not None]
    assert forward[0] == ("exp", "exp(x)")


def test_sum_inside_of_one_derivative_stays_with_it(recorded: Callable[..., Any]) -> None:
    """JAX's tanh' is (g + g y) (1 - y)."""
    made, execution = recorded("sum(tanh(x))", "reverse")
    sums = [step for step in execution.steps if step.name == "add_any"]
    assert [made.nodes[step.node].text for step in sums] == ["tanh(x)"]


def test_tangents_are_told_from_values(recorded: Callable[..., Any]) -> None:
    _, execution = recorded("exp(x) * sin(x)", "forward")
    phases = [(step.name, step.phase) for step in execution.steps]
    assert ("sin", "forward") in phases
    assert ("cos", "tangent") in phases


CHOSEN = [
    "sum(solve(x + 3 * eye(2), x)) + logdet(x @ transpose(x))",  # a linear solve in its own words
    "sum(where(x > 0, softmax(x), x ** 3)) * norm(x) + prod(x) + max(cumsum(x[0]))",
]


@pytest.mark.parametrize("text", CHOSEN)
def test_equations_run_again_give_what_jax_gives(
    recorded: Callable[..., Any],
    engine_called: Callable[[str], Engine],
    ask: Callable[..., Any],
    text: str,
) -> None:
    """In float64 by NumPy, and in balls, from nothing but the input."""
    x = np.array([[0.3, -0.2], [0.1, 0.5]])
    _, execution = recorded(text, "reverse", x)
    wanted = ask(engine_called("jax"), text, x=x).gradients["x"].values[0, 0]
    needed = execution.needed()
    assert all(
        not step.name.startswith(("jit", "cond", "while", "scan")) for step in execution.steps
    )
    for numbers in (FLOAT64, Numbers(FIRST_BITS)):
        exact = shadow(execution, needed, numbers)
        found = to_float(exact[execution.target]).ravel()[execution.place]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_loops_and_branches_are_taken_apart(engine_called: Callable[[str], Engine]) -> None:
    engine_called("jax")
    import jax

    from gradcheck_cli.engines.jax.recorder import JaxRecorder

    def function(x: Any) -> list[Any]:
        turned = jax.lax.scan(lambda s, row: (s * row, s + row), x[0], x, reverse=True)
        chosen = jax.lax.cond(x[0] > 0, lambda y: y * 2, lambda y: y * 3, turned[0])
        grown = jax.lax.while_loop(lambda y: y < 10, lambda y: y * y + 1, chosen)
        return [grown, None, turned[1]]

    recorder = JaxRecorder()
    x = jax.numpy.array(X)
    slots = recorder.record(function, [x])
    assert slots[1] is None
    execution = recorder.execution
    grown, _, turned = function(x)
    for slot, wanted in ((slots[0], grown), (slots[2], turned)):
        assert slot is not None
        # what is compiled as a whole may round once where two operations round twice
        np.testing.assert_allclose(execution.values(slot), wanted, rtol=1e-14)
        execution.target = slot
        exact = shadow(execution, execution.needed(), Numbers(FIRST_BITS))
        np.testing.assert_allclose(to_float(exact[slot]), wanted, rtol=1e-14)
    assert {"cond", "while", "scan", "jit"}.isdisjoint(step.name for step in execution.steps)


def test_steps_of_a_loop_are_differentiated(engine_called: Callable[[str], Engine]) -> None:
    engine_called("jax")
    import jax

    from gradcheck_cli.engines.jax.recorder import JaxRecorder

    def function(x: Any) -> list[Any]:
        turned = jax.lax.scan(lambda s, row: (s * row, s + row), x[0], x)
        several = jax.vmap(lambda y: jax.lax.while_loop(lambda z: z < 10, lambda z: z * z + 1, y))
        return [*turned, several(x)]

    recorder = JaxRecorder()
    recorder.record(function, [jax.numpy.array(X)])
    slots = recorder.execution.slots
    moving = [step for step in recorder.execution.steps if step.moves and step.live]
    assert {"slice", "concatenate", "select"} <= {step.name for step in moving}
    for step in moving:
        given = [slots[i].native for i in step.args]
        made = jax.make_jaxpr(lambda *xs, step=step: step.live(xs))(*given)
        (found,) = jax.core.eval_jaxpr(made.jaxpr, made.consts, *given)
        np.testing.assert_array_equal(found, slots[step.results[0]].native)


def test_steps_of_a_run_in_float64_repeat_it_after_its_end(
    engine_called: Callable[[str], Engine],
) -> None:
    engine_called("jax")
    import jax

    from gradcheck_cli.engines.jax.recorder import JaxRecorder

    def function(x: Any) -> list[Any]:
        turned = jax.lax.scan(lambda s, row: (s * row, s + row), x[0], x)
        return [*turned, jax.numpy.linalg.det(x[0] * jax.numpy.eye(2) + x[:2])]

    recorder = JaxRecorder()
    with jax.enable_x64(True):
        recorder.record(function, [jax.numpy.asarray(X)])
    slots = recorder.execution.slots
    with jax.enable_x64(False):
        for step in recorder.execution.steps:
            again = step.low([slots[i].native for i in step.args])
            for slot, value in zip(step.results, again, strict=True):
                assert value.dtype == slots[slot].native.dtype, step.name
                np.testing.assert_array_equal(value, slots[slot].native)


def test_a_branch_that_the_numbers_choose_is_no_program(
    engine_called: Callable[[str], Engine],
) -> None:
    engine_called("jax")
    import jax

    from gradcheck_cli.engines.jax.recorder import JaxRecorder

    def chosen(x: Any) -> list[Any]:
        return [x, jax.lax.cond(x[0] > 0, lambda: x * 2, lambda: x * 3)]

    recorder = JaxRecorder()
    x, y = recorder.record(chosen, [jax.numpy.asarray(X)])
    with pytest.raises(NotLifted):
        lifted_outputs(recorder.execution, {"x": x}, [y], Span(1, 1, 1, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_that_are_added_at_places(
    engine_called: Callable[[str], Engine], dtype: str
) -> None:
    """Several at one place, and some at none; the derivative of whatever is indexed by an array."""
    engine_called("jax")
    import jax

    from gradcheck_cli.engines.jax.recorder import JaxRecorder

    def function(x: Any, u: Any) -> list[Any]:
        places = np.array([1, 3, 1, 7])
        return [x.at[places].add(u, mode="drop")]

    with jax.enable_x64(dtype == "float64"):
        recorder = JaxRecorder()
        x = jax.numpy.arange(8.0).reshape(4, 2).astype(dtype)
        u = jax.numpy.array([0.1, 0.2, 0.3, 0.4]).astype(dtype)[:, None] * jax.numpy.ones(2, dtype)
        (slot,) = recorder.record(function, [x, u])
        (wanted,) = function(x, u)
        execution = recorder.execution
        assert slot is not None
        execution.target = slot
        assert "scatter-add" in {step.name for step in execution.steps}
        for numbers in (FLOAT64, Numbers(FIRST_BITS)):
            exact = shadow(execution, execution.needed(), numbers)
            np.testing.assert_allclose(to_float(exact[slot]), wanted, rtol=1e-6)


CAUSES: list[tuple[str, Any, str, str, float, str, str]] = [
    ("1 / exp(x)", 100.0, "float32", "reverse", -math.exp(-100), "exp", "exp(x)"),
    ("1 / exp(x)", 60.0, "float32", "reverse", -math.exp(-60), "integer_pow", "1 / exp(x)"),
    ("1 / exp(x)", 60.0, "float32", "forward", -math.exp(-60), "integer_pow", "1 / exp(x)"),
    ("1 / exp(x)", 12.0, "float16", "reverse", -math.exp(-12), "exp", "exp(x)"),
    ("log((1 + x) - 1)", 1e-9, "float32", "forward", 1e9, "sub", "(1 + x) - 1"),
    ("log(sum(exp(x)))", [100.0, 101.0], "float32", "reverse", 1 / (1 + math.e), "exp", "exp(x)"),
]


@pytest.mark.parametrize(("text", "x", "dtype", "mode", "target", "operation", "where"), CAUSES)
def test_cause_is_found_and_proven(
    engine_called: Callable[[str], Engine],
    ask: Callable[..., Evaluation],
    program: Callable[..., Any],
    text: str,
    x: Any,
    dtype: str,
    mode: str,
    target: float,
    operation: str,
    where: str,
) -> None:
    request = TraceRequest(input="x", target=target)
    answer = ask(engine_called("jax"), text, mode=mode, dtype=dtype, trace=request, x=x)
    trace = answer.trace
    assert trace is not None
    assert not trace.note
    (culprit,) = (trace.operations[i] for i in trace.culprits)
    assert culprit.name == operation
    assert culprit.node is not None
    assert program(text, {"x": np.asarray(x)}).nodes[culprit.node].text == where
    # right to a quarter of the dtype's digits: 64 ulps in float32
    assert trace.repaired is not None
    assert trace.repaired < 64

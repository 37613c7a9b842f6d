"""The program of a gradient holds for other numbers, and for other dtypes than that of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem, Projection
from gradcheck_cli.domain.placement import Placement
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.gradient_program import engine_program
from gradcheck_cli.truth.plain import PlainFunction

X = np.array([0.5, 2.0])


@pytest.mark.parametrize("engine", ["reference", "torch", "tensorflow", "jax"])
@pytest.mark.parametrize(
    ("model", "op", "number"),
    [("sum(x * log(0.3))", "log", np.log(0.3)), ("sum(x - exp(0.7))", "exp", np.exp(0.7))],
)
def test_what_is_computed_from_constants_is_part_of_it(
    engine: str,
    model: str,
    op: str,
    number: float,
    engine_called: Callable[[str], Engine],
    program: Callable[..., Any],
) -> None:
    """log(0.3) rounds in another way in each dtype, so an array of its float64 numbers is not
    enough."""
    made = program(model, {"x": X})
    problem = Problem(
        made, {"x": X}, ("x",), "float64", "float64", "reverse", Projection(rows=np.ones(1))
    )
    found = engine_program(engine_called(engine), problem)
    assert found.program is not None, found.reason
    assert op in [node.op for node in found.program.nodes]
    assert not any(np.any(np.isclose(array, number)) for array in found.constants.values())


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax"])
def test_kernels_of_a_gpu_are_not_those_of_the_cpu(
    name: str,
    engine_called: Callable[[str], Engine],
    program: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = Projection(rows=np.ones(1))
    made = program("sum(exp(x))", {"x": X})
    problem = Problem(made, {"x": X}, ("x",), "float64", "float64", "reverse", rows)
    engine = engine_called(name)
    monkeypatch.setattr(engine, "placement", Placement("cuda"))
    found = engine_program(engine, problem)
    assert (found.program, found.reason) == (None, "how this device rounds is not known")


@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_what_every_dtype_computes_exactly_stays_an_array(
    engine: str, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    made = program("sum(x + 3 * eye(2))", {"x": X})
    rows = Projection(rows=np.ones(1))
    problem = Problem(made, {"x": X}, ("x",), "float64", "float64", "reverse", rows)
    found = engine_program(engine_called(engine), problem)
    assert found.program is not None, found.reason
    assert "multiply" not in [node.op for node in found.program.nodes]
    assert any(np.array_equal(array, 3 * np.eye(2)) for array in found.constants.values())


ORDERED = {
    "sum(sort(x) * cos(x))": {"torch", "jax"},
    "sum(sort(x * x, axis=1)[:, 0] * sort(x, axis=0)[1])": {"torch", "jax"},
    "sum(stop_gradient(sort(x, axis=0)) * x)": {"reference", "torch", "jax", "tensorflow"},
    "sum(topk_values(x, 1) * x)": {"torch", "jax"},
    "median(x) * x[0, 0]": {"torch"},
    "sum(cummax(x, axis=0) * cos(x))": {"jax", "tensorflow"},
    "sum(take(x, argsort(x[0]), axis=1) * x)": set(),
    "sum(softmax(x) * sin(x))": {"torch", "jax", "tensorflow"},
    "max(x) * x[1, 0]": {"reference", "torch", "jax", "tensorflow"},
}
"""Models, and the engines that record them as programs."""


@pytest.mark.parametrize("engine", ["reference", "torch", "jax", "tensorflow"])
@pytest.mark.parametrize("model", ORDERED)
def test_what_depends_on_an_order_holds_for_all_orders_or_is_no_program(
    engine: str, model: str, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    """The numbers at which it is recorded have one of them."""
    here, there = np.array([[0.5, 2.0], [3.0, -1.0]]), np.array([[1.0, -2.0], [-4.0, 0.3]])
    made, rows = program(model, {"x": here}), Projection(rows=np.ones(1))
    ask = Problem(made, {"x": here}, ("x",), "float64", "float64", "reverse", rows)
    called = engine_called(engine)
    found = engine_program(called, ask)
    assert (found.program is not None) == (engine in ORDERED[model]), found.reason
    if found.program is None:
        return
    nodes = PlainFunction(found.program, "float64").nodes({"x": there, **found.constants})
    right = called.evaluate(replace(ask, values={"x": there}))
    value, slope = (nodes[place] for place in found.program.outputs if place is not None)
    np.testing.assert_allclose(value, right.output, rtol=1e-14)
    np.testing.assert_allclose(slope.ravel(), right.gradients["x"].values.ravel(), rtol=1e-14)


@pytest.mark.parametrize("model", ["sum(inv(x) * x)", "sum(solve(x, x * x)[0])", "trace(inv(x))"])
def test_jax_solves_equations_in_one_step_whatever_rows_are_exchanged(
    model: str, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    here, there = np.array([[3.0, 1.0], [0.5, 2.0]]), np.array([[0.1, 2.0], [3.0, 1.0]])
    made, rows = program(model, {"x": here}), Projection(rows=np.ones(1))
    ask = Problem(made, {"x": here}, ("x",), "float64", "float64", "reverse", rows)
    called = engine_called("jax")
    found = engine_program(called, ask)
    assert found.program is not None, found.reason
    nodes = PlainFunction(found.program, "float64").nodes({"x": there, **found.constants})
    right = called.evaluate(replace(ask, values={"x": there}))
    value, slope = (nodes[place] for place in found.program.outputs if place is not None)
    np.testing.assert_allclose(value, right.output, rtol=1e-13)
    np.testing.assert_allclose(slope.ravel(), right.gradients["x"].values.ravel(), rtol=1e-13)


WITHIN_A_CALL = {
    "sin(x * x) * x": 0,
    "x * exp(-x) / (1 + x)": 0,
    "where(x > 0, x * exp(x), sin(x))": 0,
    "silu(x) * x": 2,
    "softplus(x) + gelu(x)": 2,
    "var(x) * x[0, 0]": 2,
}
"""Models, and at least how many numbers of them stay within compiled calls of JAX."""


@pytest.mark.parametrize("model", WITHIN_A_CALL)
def test_jax_keeps_the_numbers_that_leave_a_compiled_call(
    model: str, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    """Calls of `jax.nn` compute several operations as one; all others run one by one."""
    shape = (1, 2) if "[" in model else ()
    made = program(model, {"x": np.full(shape, 0.7)})
    ask = Problem(
        made,
        {"x": np.full(shape, 0.7)},
        ("x",),
        "float64",
        "float64",
        "reverse",
        Projection(rows=np.ones((1, *made.result.shape))),
    )
    found = engine_program(engine_called("jax"), ask).program
    assert found is not None
    computed = [i for i, n in enumerate(found.nodes) if n.op not in ("input", "constant")]
    again = [i for i in computed if not found.nodes[i].kept]
    assert (len(again) >= WITHIN_A_CALL[model]) if WITHIN_A_CALL[model] else not again
    assert all(found.nodes[i].kept for i in found.outputs if i in computed)

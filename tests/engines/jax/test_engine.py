"""What all engines have alike, of JAX; and what is peculiar to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import SECOND as SECOND_MODES
from gradcheck_cli.domain.evaluation import Mode, Problem, Projection, TraceRequest, TrainingProblem
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxJitEngine
from tests.engines.kit.test_adapter import DATA, LINEAR
from tests.engines.kit.test_walker import NO_GRADIENT, RECIPROCAL, WITH_JVP, WRONG_SHAPE

X = np.array([0.3, -1.2, 2.1])
Y = np.array([1.7, 0.4, -0.6])
TEXT = "sum(x ** 3 * sin(y))"
FIRST = {"x": 3 * X**2 * np.sin(Y), "y": X**3 * np.cos(Y)}
SECOND = {
    "x.x": np.diag(6 * X * np.sin(Y)),
    "x.y": np.diag(3 * X**2 * np.cos(Y)),
    "y.x": np.diag(3 * X**2 * np.cos(Y)),
    "y.y": np.diag(-(X**3) * np.sin(Y)),
}


@pytest.fixture
def jax_engine(engine_called: Callable[[str], Engine]) -> Engine:
    return engine_called("jax")


@pytest.fixture(params=["jax", "jax-jit"])
def either(request: pytest.FixtureRequest, engine_called: Callable[[str], Engine]) -> Engine:
    """Uncompiled and compiled."""
    return engine_called(request.param)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_first_derivatives(either: Engine, ask: Callable[..., Any], mode: str) -> None:
    answer = ask(either, TEXT, mode=mode, x=X, y=Y)
    assert answer.failure is None
    for name, gradient in FIRST.items():
        assert answer.gradients[name].dtype == "float64"
        np.testing.assert_allclose(answer.gradients[name].values, gradient[None], rtol=1e-14)


@pytest.mark.parametrize("mode", ["reverse-over-reverse", "forward-over-reverse"])
def test_second_derivatives(either: Engine, ask: Callable[..., Any], mode: str) -> None:
    answer = ask(either, TEXT, mode=mode, x=X, y=Y)
    assert answer.failure is None
    assert answer.gradients.keys() == SECOND.keys()
    for name, block in SECOND.items():
        np.testing.assert_allclose(answer.gradients[name].values, block, rtol=1e-14)


def test_directions_of_a_hessian(jax_engine: Engine, ask: Callable[..., Any]) -> None:
    columns = {"x": np.array([[1.0, 2.0, -1.0]]), "y": np.array([[0.5, 0.0, 3.0]])}
    for mode in ("reverse-over-reverse", "forward-over-reverse"):
        answer = ask(jax_engine, TEXT, mode=mode, projection=Projection(columns=columns), x=X, y=Y)
        for name, block in SECOND.items():
            wanted = block @ columns[name[-1]][0]
            np.testing.assert_allclose(answer.gradients[name].values[:, 0], wanted, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtype_is_kept(jax_engine: Engine, ask: Callable[..., Any], dtype: str) -> None:
    answer = ask(jax_engine, "0.1 * x / (1 + exp(x)) ** 2", dtype=dtype, x=0.3)
    assert answer.gradients["x"].dtype == dtype
    exact = ask(jax_engine, "0.1 * x / (1 + exp(x)) ** 2", x=0.3)
    bits = {"float16": 11, "bfloat16": 8}[dtype]
    # ten operations, condition number below ten
    np.testing.assert_allclose(
        answer.gradients["x"].values, exact.gradients["x"].values, rtol=100 * 2.0**-bits
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("op", ["ndtri", "log_ndtr", "expm"])
def test_a_dtype_that_an_operation_lacks_is_unsupported(
    jax_engine: Engine, ask: Callable[..., Any], op: str, dtype: str
) -> None:
    answer = ask(jax_engine, f"sum({op}(x))", dtype=dtype, x=[[0.5, 0.25], [0.25, 0.5]])
    assert answer.failure is not None
    assert answer.failure.kind == "unsupported"


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_reciprocal_of_exp_is_lost_as_in_jax(
    jax_engine: Engine, ask: Callable[..., Any], mode: str
) -> None:
    got = [
        ask(jax_engine, "1 / exp(x)", mode=mode, dtype="float32", x=x).gradients["x"].values.item()
        for x in (100.0, 60.0, 45.0)
    ]
    np.testing.assert_array_equal(got, [np.nan, 0.0, 0.0])
    assert np.signbit(got[1:]).all()


def test_compiler_may_change_what_a_formula_gives(
    engine_called: Callable[[str], Engine], ask: Callable[..., Any]
) -> None:
    """XLA takes (1 + x) - 1 for x: the gradient is inf without `jax.jit` and right with it."""
    got = {
        name: ask(engine_called(name), "log((1 + x) - 1)", dtype="float32", x=1e-9)
        for name in ("jax", "jax-jit")
    }
    assert got["jax"].gradients["x"].values.item() == np.inf
    np.testing.assert_allclose(got["jax-jit"].gradients["x"].values.item(), 1e9, rtol=1e-6)


@pytest.mark.parametrize("mode", ["reverse", "forward", "forward-over-reverse"])
def test_a_program_is_compiled_once(program: Callable[..., Any], mode: Mode) -> None:
    """JAX runs what it compiles in Python once: at other points and other upstream gradients of the
    same shapes nothing is run again. How long it compiles is timed apart."""
    engine = JaxJitEngine()
    engine.load()
    sine, times = engine._calls["sin"], []
    engine._calls["sin"] = lambda x: times.append(1) or sine(x)
    formula = program(TEXT, {"x": X, "y": Y})
    found = []
    for x in (X, 2 * X):
        count = len(times)
        rows = None if mode == "forward" else np.full((1,), 1.0)
        found.append(
            engine.evaluate(
                Problem(
                    program=formula,
                    values={"x": x, "y": Y},
                    wrt=("x",),
                    dtype="float64",
                    rounding="float64",
                    mode=mode,
                    projection=Projection(rows=rows),
                )
            )
        )
    assert len(times) == count
    assert count
    block = "x.x" if mode in SECOND_MODES else "x"
    first, second = (np.asarray(one.gradients[block].values) for one in found)
    np.testing.assert_allclose(second, first * (2 if mode in SECOND_MODES else 4), rtol=1e-14)
    assert [answer.compile_s > 0 for answer in found] == [True, False]


def test_custom_vjp(jax_engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(jax_engine, RECIPROCAL, dtype="float32", x=60.0)
    np.testing.assert_allclose(answer.gradients["x"].values, [[-np.exp(-60.0)]], rtol=1e-6)
    for mode in ("reverse-over-reverse", "forward-over-reverse"):
        answer = ask(jax_engine, RECIPROCAL, mode=mode, dtype="float32", x=60.0)
        np.testing.assert_allclose(answer.gradients["x.x"].values, [[np.exp(-60.0)]], rtol=1e-6)
    refused = ask(jax_engine, RECIPROCAL, mode="forward", x=2.0)
    assert refused.failure.kind == "unsupported"
    assert "needs a jvp for the custom gradient of `f`" in refused.failure.message


def test_of_two_stated_rules_each_mode_has_its_own(
    jax_engine: Engine, ask: Callable[..., Any]
) -> None:
    forward = ask(jax_engine, WITH_JVP, mode="forward", x=2.0)
    assert forward.gradients["x"].values.tolist() == [[7.0]]
    reverse = ask(jax_engine, WITH_JVP, x=2.0)
    np.testing.assert_allclose(reverse.gradients["x"].values, [[-np.exp(-2.0)]], rtol=1e-15)


def test_what_a_rule_leaves_out_is_zero_in_jax(jax_engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(jax_engine, NO_GRADIENT, x=2.0, y=3.0)
    assert answer.gradients["x"].values.tolist() == [[3.0]]
    assert answer.gradients["y"].values.tolist() == [[0.0]]


def test_rule_of_another_shape_is_told(jax_engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(jax_engine, WRONG_SHAPE, x=X)
    assert answer.failure.kind == "wrong-shape"
    assert "`f`" in answer.failure.message


def test_failure_names_the_node(jax_engine: Engine, ask: Callable[..., Any]) -> None:
    answer = ask(jax_engine, "sum(cholesky(x))", dtype="float16", x=np.eye(2))
    assert answer.failure.kind == "unsupported"
    assert answer.failure.node == 1


@pytest.mark.parametrize("formula", ["ndtri(x)", "log_ndtr(x)"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_dtype_that_a_function_lacks_is_unsupported(
    jax_engine: Engine, ask: Callable[..., Any], formula: str, dtype: str
) -> None:
    answer = ask(jax_engine, formula, dtype=dtype, x=0.5)
    assert answer.failure is not None
    assert answer.failure.kind == "unsupported"


def test_constants_have_no_tangents(either: Engine, ask: Callable[..., Any]) -> None:
    request = TraceRequest(row=0, input="x", column=0)
    answer = ask(either, "x ** (1 / 3)", mode="forward", trace=request, x=8.0)
    assert answer.failure is None
    (constant,) = set(answer.trace.values) - set(answer.trace.derivatives)
    assert answer.trace.values[constant] == 1 / 3


def test_training_follows_the_path(either: Engine, program: Callable[..., Any]) -> None:
    made = program(LINEAR, DATA)
    problem = TrainingProblem(made, DATA, ("w", "b"), 0.01, 100, "float64", "float64")
    trained = either.train(problem)
    assert trained.failure is None
    assert trained.losses is not None
    assert trained.losses.shape == (101,)
    # a path of 100 contracting steps gathers a few roundings
    np.testing.assert_allclose(trained.parameters["w"][-1, 0, 0], 1.745076887727999, rtol=1e-14)
    np.testing.assert_allclose(trained.parameters["b"][-1], 0.5794645661516962, rtol=1e-14)


def test_module_costs_no_framework() -> None:
    code = (
        "import sys\n"
        "from gradcheck_cli.engines.jax.engine import JaxEngine\n"
        "JaxEngine().capabilities\n"
        "print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_formula_passes_as_compiled_where_jit_is_disabled(ask: Callable[..., Any]) -> None:
    import jax

    engine = JaxJitEngine()
    engine.load()
    with jax.disable_jit():
        answer = ask(engine, "sin(x)", x=0.5)
    assert answer.failure is not None
    assert "jax_disable_jit" in answer.failure.message

"""Failures and training, the same in every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.evaluation import Problem, TrainingProblem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.kit.adapter import ProgramEngine

Make = Callable[[str, Mapping[str, np.ndarray]], Program]
LINEAR = "mean((X @ w + b - y) ** 2)"
DATA = {
    "X": np.array([[1.0], [2.0], [3.0]]),
    "y": np.array([[2.0], [4.0], [6.0]]),
    "w": np.zeros((1, 1)),
    "b": np.zeros(()),
}


def _broken(program: Program, **changes: Any) -> Program:
    """The program with its last node changed, which the parser would have refused."""
    return replace(program, nodes=(*program.nodes[:-1], replace(program.nodes[-1], **changes)))


def _evaluate(engine: Engine, program: Program, x: np.ndarray, dtype: str = "float64") -> Any:
    return engine.evaluate(Problem(program, {"x": x}, ("x",), dtype, dtype, "reverse"))


def test_exception_of_the_framework_names_the_node(engine: Engine, program: Make) -> None:
    x = np.ones(3)
    broken = _broken(program("reshape(sin(x), (3, 1))", {"x": x}), keywords={"shape": (2, 2)})
    answer = _evaluate(engine, broken, x)
    assert answer.failure.kind == "raised"
    assert answer.failure.node == len(broken.nodes) - 1
    assert "\n" not in answer.failure.message
    assert "gradcheck_cli" not in answer.failure.detail
    assert answer.output is None
    assert answer.gradients == {}


def test_unknown_op_is_refused_by_name(engine: Engine, program: Make) -> None:
    x = np.ones(3)
    answer = _evaluate(engine, _broken(program("sin(x)", {"x": x}), op="bessel_j0"), x)
    assert answer.failure.kind == "unsupported"
    assert "`bessel_j0`" in answer.failure.message
    assert answer.failure.node == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_regression_follows_the_path(engine: Engine, program: Make, dtype: str) -> None:
    made = program(LINEAR, DATA)
    trained = engine.train(TrainingProblem(made, DATA, ("w", "b"), 0.01, 100, dtype, dtype))
    assert trained.failure is None
    assert trained.losses.shape == (101,)
    assert trained.parameters["w"].shape == (101, 1, 1)
    # a path of 100 contracting steps gathers a few roundings
    limit = {"float64": 1e-14, "float32": 1e-5}[dtype]
    np.testing.assert_allclose(trained.parameters["w"][-1, 0, 0], 1.745076887727999, rtol=limit)
    np.testing.assert_allclose(trained.parameters["b"][-1], 0.5794645661516962, rtol=limit)
    # first step: parameter - rate * gradient with the gradients of the textbook
    np.testing.assert_allclose(trained.parameters["w"][1], 0.01 * 56 / 3, rtol=limit)
    np.testing.assert_allclose(trained.parameters["b"][1], 0.08, rtol=limit)
    np.testing.assert_allclose(trained.losses[0], 56 / 3, rtol=limit)


def test_parameter_without_gradient_fails(engine: Engine, program: Make) -> None:
    values = {"w": np.ones(()), "x": np.ones(())}
    made = program("w * stop_gradient(x)", values)
    answer = engine.train(TrainingProblem(made, values, ("w", "x"), 0.1, 3, "float64", "float64"))
    assert answer.failure is not None
    assert "`x`" in answer.failure.message


def test_values_are_not_changed(engine: Engine, program: Make) -> None:
    x = np.array([1.0, 2.0])
    x.setflags(write=False)
    answer = _evaluate(engine, program("sum(x * x)", {"x": x}), x)
    assert answer.failure is None
    assert x.tolist() == [1.0, 2.0]


def test_float32_problem_in_float64_keeps_the_rounded_constants(
    engine: Engine, ask: Callable[..., Any]
) -> None:
    answer = ask(engine, "0.1 * x", dtype="float64", rounding="float32", x=1.0)
    assert answer.output == float(np.float32(0.1))
    clipped = ask(engine, "clip(x, max=0.1)", dtype="float64", rounding="float32", x=1.0)
    assert clipped.output == float(np.float32(0.1))


@pytest.mark.parametrize(("text", "times"), [("2 * x", 1), ("0.1 * x", 2)])
def test_a_program_is_prepared_once_where_its_constants_are_exact(
    engine: Engine, program: Make, monkeypatch: pytest.MonkeyPatch, text: str, times: int
) -> None:
    assert isinstance(engine, ProgramEngine)
    made: list[str] = []
    make = engine.framework
    monkeypatch.setattr(engine, "framework", lambda dtype: made.append(dtype) or make(dtype))
    one = program(text, {"x": np.array(3.0)})
    for rounding in ("float64", "float32", "float64", "float32"):
        problem = Problem(one, {"x": np.array(3.0)}, ("x",), "float64", rounding, "reverse")
        answer = engine.evaluate(problem)
        constant = {"2 * x": 2.0, "0.1 * x": float(np.dtype(rounding).type(0.1))}[text]
        assert answer.gradients["x"].values.tolist() == [[constant]]
    assert made == ["float64"] * times


def test_a_program_in_use_is_kept_while_many_others_come_and_go(
    engine: Engine, program: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(engine, ProgramEngine)
    made: list[str] = []
    make = engine.framework
    monkeypatch.setattr(engine, "framework", lambda dtype: made.append(dtype) or make(dtype))
    x = np.array(3.0)
    one = program("2 * x", {"x": x})
    for number in range(100):
        assert _evaluate(engine, one, x).output == 6.0
        assert _evaluate(engine, program(f"x + {number}", {"x": x}), x).output == 3.0 + number
    assert made == ["float64"] * 101

"""Formulas that `torch.compile` has compiled."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND, Mode, Problem, Projection
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.patience import NO_COMPILER
from gradcheck_cli.engines.torch.compiled import INDUCTOR
from gradcheck_cli.engines.torch.compiler import REFUSED, as_one_graph, reason_of, refusals
from gradcheck_cli.engines.torch.engine import TorchCompileEngine

X = np.array([0.3, -1.2, 2.1])
Y = np.array([1.7, 0.4, -0.6])
TEXT = "sum(x ** 3 * sin(y))"
MODES = [*FIRST_ORDER, *SECOND]


@pytest.fixture
def engine(engine_called: Callable[[str], Engine]) -> Engine:
    return engine_called("torch-compile")


def problem(program: Callable[..., Any], mode: Mode, stage: str, x: np.ndarray = X) -> Problem:
    third = {"x": X, "y": Y} if mode.count("over") == 2 else None
    columns = {"x": X[None], "y": Y[None]} if third else None
    values = {"x": x, "y": Y}
    return Problem(
        program(TEXT, values),
        values,
        ("x", "y"),
        "float64",
        "float64",
        mode,
        Projection(columns=columns),
        along=third,
        stage=stage,
    )


def compare(engine: Engine, plain: Engine, question: Problem) -> None:
    """The compiled derivative is that of PyTorch, and another point compiles nothing."""
    found = engine.evaluate(question)
    assert found.failure is None, found.failure
    right = plain.evaluate(question)
    for name, gradient in right.gradients.items():
        np.testing.assert_allclose(found.gradients[name].values, gradient.values, rtol=1e-13)
    assert found.compile_s > 0
    assert engine.evaluate(replace(question, values={"x": 2 * X, "y": Y})).compile_s == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_compiled_once(
    engine: Engine, engine_called: Callable[[str], Engine], program: Callable[..., Any], mode: Mode
) -> None:
    compare(engine, engine_called("torch"), problem(program, mode, "AOTAutograd"))


def test_compilation_is_still_told_after_a_reset_of_the_compiler(
    engine: Engine, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    import torch

    torch._dynamo.reset()
    compare(engine, engine_called("torch"), problem(program, "reverse", "Dynamo"))


@pytest.mark.parametrize("mode", MODES)
def test_without_a_compiler_every_mode_is_that_of_pytorch(
    engine: Engine, engine_called: Callable[[str], Engine], program: Callable[..., Any], mode: Mode
) -> None:
    question = problem(program, mode, NO_COMPILER)
    found, right = engine.evaluate(question), engine_called("torch").evaluate(question)
    assert found.failure is None, found.failure
    for name, gradient in right.gradients.items():
        np.testing.assert_array_equal(found.gradients[name].values, gradient.values)


@pytest.mark.exhaustive
def test_inductor_writes_and_compiles_a_function_once(
    engine: Engine, engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    compare(engine, engine_called("torch"), problem(program, "reverse", INDUCTOR))


def test_stages_and_the_compiler_of_the_machine_are_known_before_pytorch_is() -> None:
    capabilities = TorchCompileEngine.capabilities
    assert capabilities.stages[-1] == INDUCTOR
    assert [tool.what for tool in capabilities.tools] == ["a C++ compiler"]
    assert not capabilities.by_default


def test_what_the_compiler_stumbled_over_is_one_sentence() -> None:
    said = "Dynamo failed to run FX node: got {}\n\nfrom user code:\n   File"
    why = 'RuntimeError(\'is_inference() INTERNAL ASSERT FAILED at "/w/aten/Stubs.cpp":66, please'
    assert reason_of(ValueError(said.format(why))) == (
        "PyTorch fails one of its own assertions while it traces (Stubs.cpp:66)"
    )
    why = "AssertionError(\"Convert to FakeTensors with 'a' or 'b'. Found in aten.norm(Grad\")"
    assert reason_of(ValueError(said.format(why))) == (
        "AssertionError: Convert to FakeTensors with 'a' or 'b'"
    )
    assert reason_of(ValueError("no\nmore")) == "ValueError: no"


def test_a_derivative_that_the_compiler_does_not_take_is_unsupported() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x

    compiled = as_one_graph(torch, broken)
    with pytest.raises(Unsupported, match=REFUSED), refusals():
        compiled(torch.ones(2))


@pytest.mark.parametrize(
    "function",
    [lambda x: torch.quantile(x, 0.3), lambda x: x.clone().lerp_(x[0], x[1])],
    ids=["quantile", "lerp_"],
)
def test_after_the_compiler_failed_pytorch_differentiates_as_before(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def pushed(x: torch.Tensor) -> torch.Tensor:
        y_dot: torch.Tensor = torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]
        return y_dot

    x = torch.tensor([0.5, 1.5, -1.0])
    excluded = torch._C._dispatch_tls_local_exclude_set()
    compiled = as_one_graph(torch, pushed)
    for _ in range(2):
        with pytest.raises(Unsupported, match="fails one of its own assertions"), refusals():
            compiled(x)
        gc.collect()
        assert torch._C._dispatch_tls_local_exclude_set() == excluded
        assert torch.func.jvp(torch.exp, (x,), (x,))[1].tolist() == (x.exp() * x).tolist()

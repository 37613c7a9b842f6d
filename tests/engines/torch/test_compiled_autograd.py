"""Backward passes that compiled autograd captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._dynamo.utils import counters

from gradcheck_cli.domain.evaluation import Problem, Projection
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.torch.engine import TorchCompiledAutogradEngine
from tests.checks.making import subject_of

X = np.array([0.3, -1.2, 2.1])


def captures() -> int:
    return int(counters["compiled_autograd"]["captures"])


def layer(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * x


def test_the_backward_pass_of_a_layer_is_captured_once_and_at_its_stage_alone() -> None:
    with torch.compiler.set_stance(force_backend="eager"):
        subject = subject_of(TorchCompiledAutogradEngine(), layer, x=X)
        before = captures()
        for stage, more in (("", 1), (subject.stages[-1], 0), ("Inductor", 0)):
            with subject.at_stage(stage):
                found = subject.run(Call(cotangents=np.eye(3))).gradients["x"]
            np.testing.assert_allclose(found, np.diag(np.cos(X) * X + np.sin(X)), rtol=1e-15)
            assert captures() - before == more
            before = captures()


def test_that_of_a_formula_too(
    engine_called: Callable[[str], Engine], program: Callable[..., Any]
) -> None:
    engine = engine_called("torch-compiled-autograd")
    formula = program("sum(sin(x) * x)", {"x": X})
    question = Problem(
        formula, {"x": X}, ("x",), "float64", "float64", "reverse", Projection(), stage="Inductor"
    )
    with torch.compiler.set_stance(force_backend="eager"):
        before = captures()
        for stage, more in (("Inductor", 0), ("", 1)):
            found = engine.evaluate(replace(question, stage=stage))
            assert found.failure is None, found.failure
            right = (np.cos(X) * X + np.sin(X))[None]
            np.testing.assert_allclose(found.gradients["x"].values, right, rtol=1e-15)
            assert captures() - before == more

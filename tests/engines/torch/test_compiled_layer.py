"""Layers and their derivatives that `torch.compile` has compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.utils import get_compilation_metrics

from gradcheck_cli.domain.evaluation import SECOND, Mode
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.torch.compiler import REFUSED
from gradcheck_cli.engines.torch.engine import TorchCompileEngine, TorchEngine
from tests.checks.making import subject_of

X = np.array([0.3, -1.2, 2.1])
Y = np.array([1.7, 0.4, -0.6])


@pytest.fixture
def engine(engine_called: Callable[[str], Engine]) -> Engine:
    return engine_called("torch-compile")


def broken(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return torch.sin(x)


@pytest.mark.exhaustive
def test_a_derivative_that_the_compiler_does_not_take_is_left_out(engine: Engine) -> None:
    with torch.compiler.set_stance(force_backend="eager"):
        layer = subject_of(engine, broken, x=[0.3, 2.1])
        for refused in (
            lambda: layer.jvp({"x": X[:2]}),
            lambda: layer.hvp("reverse-over-reverse", np.ones(2), {"x": X[:2]}),
        ):
            with pytest.raises(Unsupported, match=REFUSED):
                refused()


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["forward", *SECOND])
def test_derivatives_of_a_layer_are_compiled_once_for_all_points(mode: Mode) -> None:
    engine = TorchCompileEngine()
    weight = torch.nn.Linear(3, 3, dtype=torch.float64)
    row, along = np.array([0.4, -1.0, 2.0]), {"x": Y[None]}
    third = along if mode.count("over") == 2 else None

    def derivative(subject: Any) -> Any:
        if mode == "forward":
            return {"y": subject.jvp(along)}
        if mode == "forward-over-forward":
            return {"y": subject.second_tangent(row, along, along)}
        return subject.hvp(mode, row, along, third)

    counts = []
    with torch.compiler.set_stance(force_backend="aot_eager"):
        for x in (X, 2 * X):
            found = derivative(subject_of(engine, weight, x=x[None]))
            right = derivative(subject_of(TorchEngine(), weight, x=x[None]))
            for name, part in right.items():
                np.testing.assert_allclose(found[name], 0.0 if part is None else part, atol=1e-14)
            counts.append(len(get_compilation_metrics()))
    assert counts[0] == counts[1]
